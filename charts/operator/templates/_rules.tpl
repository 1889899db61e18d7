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
{{- end -}}
