import type { Lesson } from './lesson.ts';

export const dns: Lesson = {
  id: 'dns',
  title: 'DNS with egress isolation',
  text: [
    'A policy with `policyTypes: [Egress]` isolates what a pod sends. The first thing to break is DNS: a pod that may reach only its database cannot look up the name of the database.',
    'A policy sees the pod behind a Service, and not the Service: a rule has to allow the pods of `kube-dns`, in namespace `kube-system`, on port 53 with UDP and with TCP. Every namespace has the label `kubernetes.io/metadata.name`.',
  ],
  task: '`web` may send to `db` on port 5432/TCP, and look up names at `kube-dns`. It may send nothing else.',
  objects: `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: main, ports: [{containerPort: 5432}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  selector: {k8s-app: kube-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web-egress
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Egress]
  egress:
    - to:
        - podSelector:
            matchLabels:
              app: db
      ports:
        - port: 5432
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web-egress
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Egress]
  egress:
    - to:
        - podSelector:
            matchLabels:
              app: db
      ports:
        - port: 5432
    - to:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: kube-system
          podSelector:
            matchLabels:
              k8s-app: kube-dns
      ports:
        - port: 53
          protocol: UDP
        - port: 53
          protocol: TCP
`,
  checks: [
    { text: 'web connects to db', from: 'shop/web', to: 'shop/db', port: '5432', expect: 'allowed' },
    { text: 'web looks up names with UDP', from: 'shop/web', to: 'service:kube-system/kube-dns', port: '53/UDP', expect: 'allowed' },
    { text: 'web looks up names with TCP', from: 'shop/web', to: 'service:kube-system/kube-dns', port: '53/TCP', expect: 'allowed' },
    { text: 'web connects to no other port of kube-dns', from: 'shop/web', to: 'kube-system/coredns', port: '8080', expect: 'denied' },
    { text: 'web does not connect to an external host', from: 'shop/web', to: '203.0.113.7', port: '443', expect: 'denied' },
  ],
};
