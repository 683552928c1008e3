{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "weir.config" -}}
{{- if .Values.tls.secretName -}}
[[listener]]
address = "0.0.0.0:8883"
[listener.tls]
certificate = "/run/secrets/tls/tls.crt"
key = "/run/secrets/tls/tls.key"
{{- else -}}
[[listener]]
address = "0.0.0.0:1883"
{{- end }}

[auth]
password_file = "/run/secrets/users/users"

[process]
memory_bytes_max = {{ int64 .Values.memoryBytesMax }}

[store]
path = "/data/store"

[control]
socket = "/data/ctl"
# The kubelet asks here without a token whether the broker is ready; everything else takes one.
http = ["0.0.0.0:18083"]
allow_plain = true
{{- with .Values.cluster }}
{{- if .etcd }}

[cluster]
etcd = {{ toJson .etcd }}
name = {{ toJson .name }}
# A node is called as its pod, and found where its pod is.
listen = "0.0.0.0:7883"
{{- if .etcdUser }}
etcd_user = {{ toJson .etcdUser }}
etcd_password_file = "/run/secrets/etcd/password"
{{- end }}
{{- if .etcdCaSecretName }}
etcd_ca_file = "/run/secrets/etcd-ca/ca.crt"
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.tokens }}

{{ . }}
{{- end }}
{{- with .Values.config }}

{{ . }}
{{- end }}
{{ end -}}
