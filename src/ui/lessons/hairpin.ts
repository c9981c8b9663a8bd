import type { Lesson } from './lesson.ts';

export const hairpin: Lesson = {
  id: 'hairpin',
  title: 'A pod that calls its own Service',
  text: [
    'A pod that connects to a Service of which it is an endpoint may get itself. The packet leaves the pod and comes back to it, which is called a hairpin: Seine translates its source, because a pod drops packets from its own address. Policies never deny what a pod sends to itself.',
    'With two replicas this hides a mistake: about half of the connections reach the pod itself and succeed, and the others are denied at the other replica. A trace shows both ways.',
  ],
  task: 'Each replica of `web` connects to the Service `web` on every try. `client` keeps its access; `other` gets none.',
  objects: `apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: shop, labels: {app: other}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              app: client
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector:
            matchExpressions:
              - key: app
                operator: In
                values: [client, web]
`,
  checks: [
    {
      text: 'web-0 connects to the Service, whichever replica it gets',
      from: 'shop/web-0',
      to: 'service:shop/web',
      port: '80',
      expect: 'allowed',
    },
    { text: 'web-1 does so too', from: 'shop/web-1', to: 'service:shop/web', port: '80', expect: 'allowed' },
    { text: 'client connects to the Service', from: 'shop/client', to: 'service:shop/web', port: '80', expect: 'allowed' },
    { text: 'other does not', from: 'shop/other', to: 'service:shop/web', port: '80', expect: 'denied' },
  ],
};
