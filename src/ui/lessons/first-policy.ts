import type { Lesson } from './lesson.ts';

export const firstPolicy: Lesson = {
  id: 'first-policy',
  title: 'First policy',
  text: [
    'Without a policy, every pod may connect to every other pod. A `NetworkPolicy` that selects a pod isolates it: from then on the pod accepts only what a rule of a policy allows.',
    '`podSelector` selects the pods that are isolated. Each entry of `ingress` is one rule: its `from` names the clients, its `ports` the ports of the selected pod.',
  ],
  task: 'Only pods with the label `app: api` may connect to `db`, and only to port 5432/TCP.',
  objects: `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: api, namespace: shop, labels: {app: api}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: main, ports: [{containerPort: 5432}]}]}
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: db-clients
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: db
  policyTypes: [Ingress]
  ingress: []
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: db-clients
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: db
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              app: api
      ports:
        - port: 5432
`,
  checks: [
    { text: 'api connects to db on its port', from: 'shop/api', to: 'shop/db', port: '5432', expect: 'allowed' },
    { text: 'web does not connect to db', from: 'shop/web', to: 'shop/db', port: '5432', expect: 'denied' },
    { text: 'api does not connect to another port of db', from: 'shop/api', to: 'shop/db', port: '22', expect: 'denied' },
    { text: 'web still accepts connections', from: 'shop/db', to: 'shop/web', port: '80', expect: 'allowed' },
  ],
};
