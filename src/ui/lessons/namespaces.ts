import type { Lesson } from './lesson.ts';

export const namespaces: Lesson = {
  id: 'namespaces',
  title: 'Clients in other namespaces',
  text: [
    "`namespaceSelector` and `podSelector` in the same entry of `from` mean both: pods with these labels in namespaces with those labels. As two entries, each with its own dash, they mean either: every pod of these namespaces, and these pods of the policy's own namespace.",
    'The difference is one dash, and it is among the most common mistakes in policies.',
  ],
  task: 'Only the pod with the label `app: prometheus` in namespace `monitoring` may read port 9090 of `web`. The policy below allows more than that.',
  objects: `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: monitoring, labels: {team: platform}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus, namespace: shop, labels: {app: prometheus}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus, namespace: monitoring, labels: {app: prometheus}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: grafana, namespace: monitoring, labels: {app: grafana}}
spec: {containers: [{name: main}]}
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: metrics
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - namespaceSelector:
            matchLabels:
              team: platform
        - podSelector:
            matchLabels:
              app: prometheus
      ports:
        - port: 9090
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: metrics
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - namespaceSelector:
            matchLabels:
              team: platform
          podSelector:
            matchLabels:
              app: prometheus
      ports:
        - port: 9090
`,
  checks: [
    {
      text: 'prometheus of namespace monitoring connects to web',
      from: 'monitoring/prometheus',
      to: 'shop/web',
      port: '9090',
      expect: 'allowed',
    },
    { text: 'grafana of namespace monitoring does not', from: 'monitoring/grafana', to: 'shop/web', port: '9090', expect: 'denied' },
    { text: 'prometheus of namespace shop does not', from: 'shop/prometheus', to: 'shop/web', port: '9090', expect: 'denied' },
  ],
};
