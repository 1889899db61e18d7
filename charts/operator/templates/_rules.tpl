{{- /* Written by `cargo run -p xtask -- codegen` from crates/crd. Change it there. */ -}}
{{- define "operator.rules.watched" -}}
- apiGroups:
  - myelin.dev
  resources:
  - natsclusters
  verbs:
  - get
  - list
  - patch
  - watch
- apiGroups:
  - myelin.dev
  resources:
  - natsclusters/status
  verbs:
  - patch
- apiGroups:
  - myelin.dev
  resources:
  - natsclusters/finalizers
  verbs:
  - update
- apiGroups:
  - jetstream.nats.io
  resources:
  - accounts
  - consumers
  - keyvalues
  - objectstores
  - streams
  verbs:
  - get
  - list
  - patch
  - watch
- apiGroups:
  - jetstream.nats.io
  resources:
  - accounts/status
  - consumers/status
  - keyvalues/status
  - objectstores/status
  - streams/status
  verbs:
  - patch
- apiGroups:
  - jetstream.nats.io
  resources:
  - accounts/finalizers
  - consumers/finalizers
  - keyvalues/finalizers
  - objectstores/finalizers
  - streams/finalizers
  verbs:
  - update
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - configmaps
  - secrets
  - serviceaccounts
  - services
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - apps
  resources:
  - statefulsets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ''
  resources:
  - persistentvolumeclaims
  verbs:
  - get
  - list
  - patch
  - watch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - myelin.dev
  resources:
  - natsautoscalers
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - myelin.dev
  resources:
  - natsautoscalers/status
  verbs:
  - patch
- apiGroups:
  - apps
  resources:
  - deployments/scale
  - replicasets/scale
  - statefulsets/scale
  verbs:
  - get
  - patch
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - list
- apiGroups:
  - keda.sh
  resources:
  - scaledobjects
  verbs:
  - list
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
  - patch
{{- end -}}
{{- define "operator.rules.own" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
  - delete
  - get
  - update
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
{{- end -}}
{{- define "operator.rules.externalMetrics" -}}
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
- apiGroups:
  - apiregistration.k8s.io
  resourceNames:
  - v1beta1.external.metrics.k8s.io
  resources:
  - apiservices
  verbs:
  - get
  - patch
{{- end -}}
{{- define "operator.rules.externalMetricsReader" -}}
- apiGroups:
  - external.metrics.k8s.io
  resources:
  - nats_consumer_ack_pending
  - nats_consumer_pending
  - nats_queue_group_pending_bytes
  - nats_service_utilisation
  - nats_stream_messages
  verbs:
  - list
{{- end -}}
