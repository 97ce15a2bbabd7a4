{{/* Base of all names: the release's name, with the chart's where it does not say it already. */}}
{{- define "specfleet.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "specfleet.operator" -}}{{ include "specfleet.fullname" . }}-operator{{- end -}}
{{- define "specfleet.prometheus" -}}{{ include "specfleet.fullname" . }}-prometheus{{- end -}}

{{/* Cluster-scoped names carry the namespace: two releases of one name must not fight over one object. */}}
{{- define "specfleet.clusterName" -}}
{{ include "specfleet.operator" . }}-{{ .Release.Namespace }}
{{- end -}}

{{- define "specfleet.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "specfleet.operator" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name is required with serviceAccount.create=false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* Labels of every object; call with (dict "root" $ "component" "operator"). managed-by is not "specfleet":
     that value marks what the operator made. */}}
{{- define "specfleet.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "specfleet.selector" . }}
{{- end -}}

{{- define "specfleet.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "specfleet.podSecurity" -}}
runAsNonRoot: true
{{- with .uid }}
runAsUser: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "specfleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
