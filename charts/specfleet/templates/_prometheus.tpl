{{/* Where Prometheus looks for pods: everywhere, or in the operator's namespaces and its own. */}}
{{- define "specfleet.prometheusConfig" -}}
{{- /* One value for both: the tuner judges the age of samples by the interval that it believes in. */ -}}
{{- $interval := printf "%dms" (mulf .Values.tuning.scrapeIntervalSeconds 1000 | int) }}
global:
  scrape_interval: {{ $interval }}
  scrape_timeout: {{ $interval }}
scrape_configs:
  - job_name: specfleet-engines
    kubernetes_sd_configs:
      - role: pod
        {{- with .Values.watchNamespaces }}
        namespaces:
          names: {{ toJson . }}
        {{- end }}
        selectors:
          - role: pod
            label: app.kubernetes.io/managed-by=specfleet
    relabel_configs:
      # http: the engine's own; specfleet: of a plug-in inside it
      - source_labels: [__meta_kubernetes_pod_container_port_name]
        regex: http|specfleet
        action: keep
      - source_labels: [__meta_kubernetes_pod_phase]
        regex: Pending|Succeeded|Failed
        action: drop
      - source_labels: [__meta_kubernetes_namespace]
        target_label: namespace
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
      - source_labels: [__meta_kubernetes_pod_label_specfleet_dev_pool]
        target_label: specfleet_dev_pool
  - job_name: specfleet-operator
    kubernetes_sd_configs:
      - role: pod
        namespaces:
          names: [{{ .Release.Namespace }}]
        selectors:
          - role: pod
            label: app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=operator
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_container_port_name]
        regex: health
        action: keep
      - source_labels: [__meta_kubernetes_namespace]
        target_label: namespace
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
{{- end -}}
