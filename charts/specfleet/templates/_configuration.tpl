{{/* The operator's configuration file: the chart's values under the keys that specfleet.api.configuration knows. */}}
{{- define "specfleet.configuration" -}}
{{- $sources := dict -}}
{{- range $name, $source := .Values.metricsSources -}}
{{- $_ := set $sources $name (include "specfleet.metricsSource" (dict "name" $name "source" $source) | fromYaml) -}}
{{- end -}}
{{- if .Values.prometheus.install -}}
{{- if hasKey $sources "default" -}}
{{- fail "prometheus.install=true brings metricsSources.default itself: remove metricsSources.default, or set prometheus.install=false" -}}
{{- end -}}
{{- $_ := set $sources "default" (dict "url" (printf "http://%s.%s.svc:9090" (include "specfleet.prometheus" .) .Release.Namespace)) -}}
{{- end -}}
{{- with .Values.leaderElection -}}
{{- if not (and (gt (float64 .durationSeconds) (float64 .renewDeadlineSeconds)) (gt (float64 .renewDeadlineSeconds) (float64 .retrySeconds))) -}}
{{- fail "leaderElection.durationSeconds must be more than renewDeadlineSeconds, and that more than retrySeconds: else two operators may write at once, or one gives up before it renews; the defaults are 15, 10 and 2" -}}
{{- end -}}
{{- end -}}
watchNamespaces: {{ toJson .Values.watchNamespaces }}
metricsSources:
  {{- toYaml $sources | nindent 2 }}
metricsScope: {{ .Values.metricsScope | squote }}
images:
  {{- toYaml .Values.engineImages | nindent 2 }}
modelHub:
  {{- toYaml .Values.modelHub | nindent 2 }}
allowedServiceAccounts: {{ toJson .Values.allowedServiceAccounts }}
limits:
  {{- toYaml .Values.limits | nindent 2 }}
tuning:
  {{- toYaml .Values.tuning | nindent 2 }}
leaderElection:
  leaseName: {{ include "specfleet.operator" . }}
  {{- toYaml .Values.leaderElection | nindent 2 }}
resyncSeconds: {{ .Values.resyncSeconds }}
workers: {{ .Values.workers }}
healthPort: 8080
logLevel: {{ .Values.logLevel }}
{{- end -}}

{{/* One metrics source, its secrets as the paths where the pod finds them. */}}
{{- define "specfleet.metricsSource" -}}
{{- $folder := printf "/etc/specfleet/metrics/%s" .name -}}
url: {{ .source.url | quote }}
{{- with .source.timeoutSeconds }}
timeoutSeconds: {{ . }}
{{- end }}
{{- with .source.tenantHeader }}
tenantHeader: {{ . | quote }}
{{- end }}
{{- with .source.queryParameters }}
queryParameters:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .source.ca }}
caFile: {{ $folder }}/ca.crt
{{- end }}
{{- if .source.bearerToken }}
bearerTokenFile: {{ $folder }}/token
{{- end }}
{{- if .source.basicAuth }}
basicUsernameFile: {{ $folder }}/username
basicPasswordFile: {{ $folder }}/password
{{- end }}
{{- end -}}

{{/* The projected volume that holds those files; empty for a source without any. */}}
{{- define "specfleet.metricsSecrets" -}}
{{- with .ca }}
- {{ if .secret }}secret{{ else }}configMap{{ end }}:
    name: {{ .secret | default .configMap }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- with .bearerToken }}
- secret:
    name: {{ .secret }}
    items: [{key: {{ .key }}, path: token}]
{{- end }}
{{- with .basicAuth }}
- secret:
    name: {{ .secret }}
    items: [{key: {{ .usernameKey }}, path: username}, {key: {{ .passwordKey }}, path: password}]
{{- end }}
{{- end -}}
