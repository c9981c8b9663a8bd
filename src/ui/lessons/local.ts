import type { Lesson } from './lesson.ts';

export const local: Lesson = {
  id: 'local',
  title: 'Endpoints of the own node',
  text: [
    '`internalTrafficPolicy: Local` keeps a Service on the node: a client gets endpoints of its own node alone, which saves a way over the network. On a node without an endpoint the connection is refused, although the Service has endpoints elsewhere.',
    '`externalTrafficPolicy: Local` is the same for clients outside the cluster, whose source address it preserves.',
  ],
  task: '`client-2` on node-2 is refused. Let it reach the cache on node-1 through the Service `cache`.',
  objects: `apiVersion: v1
kind: Node
metadata: {name: node-1}
---
apiVersion: v1
kind: Node
metadata: {name: node-2}
---
apiVersion: v1
kind: Pod
metadata: {name: cache, namespace: shop, labels: {app: cache}}
spec: {nodeName: node-1, containers: [{name: main, ports: [{containerPort: 6379}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client-1, namespace: shop, labels: {app: client}}
spec: {nodeName: node-1, containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client-2, namespace: shop, labels: {app: client}}
spec: {nodeName: node-2, containers: [{name: main}]}
`,
  start: `apiVersion: v1
kind: Service
metadata:
  name: cache
  namespace: shop
spec:
  selector:
    app: cache
  internalTrafficPolicy: Local
  ports:
    - port: 6379
`,
  solution: `apiVersion: v1
kind: Service
metadata:
  name: cache
  namespace: shop
spec:
  selector:
    app: cache
  internalTrafficPolicy: Cluster
  ports:
    - port: 6379
`,
  checks: [
    { text: 'client-1 connects to the Service', from: 'shop/client-1', to: 'service:shop/cache', port: '6379', expect: 'allowed' },
    { text: 'client-2 connects to the Service', from: 'shop/client-2', to: 'service:shop/cache', port: '6379', expect: 'allowed' },
  ],
};
