import type { Lesson } from './lesson.ts';

export const defaultDeny: Lesson = {
  id: 'default-deny',
  title: 'Isolate a namespace',
  text: [
    "An empty `podSelector` selects all pods of the policy's namespace. With no rule it denies everything, which is the usual first policy of a namespace; other policies then allow what is needed.",
    'Policies add up: a connection is allowed if any rule of any policy that selects the pod allows it. The order of policies has no meaning. In `from`, a `podSelector` without `namespaceSelector` means pods of the same namespace.',
  ],
  task: 'Pods of namespace `shop` may connect to each other. Nothing else may connect to them.',
  objects: `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: ops}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shell, namespace: ops, labels: {app: shell}}
spec: {containers: [{name: main}]}
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: default-deny
  namespace: shop
spec:
  podSelector: {}
  policyTypes: [Ingress]
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: default-deny
  namespace: shop
spec:
  podSelector: {}
  policyTypes: [Ingress]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: same-namespace
  namespace: shop
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector: {}
`,
  checks: [
    { text: 'web connects to db', from: 'shop/web', to: 'shop/db', port: '5432', expect: 'allowed' },
    { text: 'db connects to web', from: 'shop/db', to: 'shop/web', port: '80', expect: 'allowed' },
    { text: 'a pod of namespace ops does not connect to db', from: 'ops/shell', to: 'shop/db', port: '5432', expect: 'denied' },
    { text: 'an external client does not connect to web', from: 'outside:203.0.113.7', to: 'shop/web', port: '80', expect: 'denied' },
    { text: 'pods of namespace ops still accept connections', from: 'shop/web', to: 'ops/shell', port: '80', expect: 'allowed' },
  ],
};
