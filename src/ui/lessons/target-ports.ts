import type { Lesson } from './lesson.ts';

export const targetPorts: Lesson = {
  id: 'target-ports',
  title: 'Services and target ports',
  text: [
    'A Service translates: a client connects to its address and `port`, and the packet reaches a pod at the `targetPort`. Policies see the packet after this translation, so a rule names the port of the pod and never that of the Service.',
    'A rule may name a port by the name that the container gives it. It then follows the container if the number changes.',
  ],
  task: '`client` connects to the Service `web` on port 80. Let it through, and nothing but the port behind the Service.',
  objects: `apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, ports: [{name: http, containerPort: 8080}, {name: admin, containerPort: 9000}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
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
      ports:
        - port: 80
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
            matchLabels:
              app: client
      ports:
        - port: http
`,
  checks: [
    { text: 'client connects to the Service', from: 'shop/client', to: 'service:shop/web', port: '80', expect: 'allowed' },
    { text: 'client connects to the pod at its port', from: 'shop/client', to: 'shop/web', port: '8080', expect: 'allowed' },
    { text: 'client does not connect to the other port of the pod', from: 'shop/client', to: 'shop/web', port: '9000', expect: 'denied' },
    { text: 'client does not connect to port 80 of the pod', from: 'shop/client', to: 'shop/web', port: '80', expect: 'denied' },
  ],
};
