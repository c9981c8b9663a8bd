import type { Lesson } from './lesson.ts';

export const dualStack: Lesson = {
  id: 'dual-stack',
  title: 'Two address families',
  text: [
    'In a dual-stack cluster each pod has an IPv4 and an IPv6 address, and a client may use either. Selectors of pods and namespaces hold for both. An `ipBlock` names one network of one family: a rule with an IPv4 network alone denies the same client over IPv6.',
    'Clients usually try IPv6 first, so such a rule shows itself as a delay, or as a connection that fails from some networks only.',
  ],
  task: 'The office has the networks 203.0.113.0/24 and 2001:db8:1::/48. Let both connect to `web` on port 443, except the guest network 203.0.113.128/25.',
  objects: `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, ports: [{containerPort: 443}]}]}
`,
  start: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: office
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - ipBlock:
            cidr: 203.0.113.0/24
      ports:
        - port: 443
`,
  solution: `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: office
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes: [Ingress]
  ingress:
    - from:
        - ipBlock:
            cidr: 203.0.113.0/24
            except: [203.0.113.128/25]
        - ipBlock:
            cidr: 2001:db8:1::/48
      ports:
        - port: 443
`,
  checks: [
    { text: 'the office connects over IPv4', from: 'outside:203.0.113.7', to: 'shop/web', port: '443', expect: 'allowed' },
    { text: 'the office connects over IPv6', from: 'outside:2001:db8:1::7', to: 'shop/web', port: '443', expect: 'allowed' },
    { text: 'guests of the office do not', from: 'outside:203.0.113.200', to: 'shop/web', port: '443', expect: 'denied' },
    { text: 'another IPv6 network does not', from: 'outside:2001:db8:2::7', to: 'shop/web', port: '443', expect: 'denied' },
  ],
};
