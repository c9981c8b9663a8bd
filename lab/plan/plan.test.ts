import { expect, it } from 'vitest';
import { type LabOptions, parsePlan, planLab, routerIps, subnetOf } from './plan.ts';

const options: LabOptions = { nodes: 3, dir: '/run/seine-lab', families: ['ipv4', 'ipv6'], tunnel: 'geneve', datapath: 'netdev' };

it('is bare only with a real Kubernetes', () => {
  const asked = { nodes: 1, dir: '/run/l', families: ['ipv4'], tunnel: 'geneve', datapath: 'netdev', bare: true } as const;
  expect(() => planLab(asked)).toThrow('--bare: only with --kubernetes');
  const kubernetes = { version: '1', programs: '/p', images: '/i' };
  expect(parsePlan(JSON.stringify(planLab({ ...asked, kubernetes }))).bare).toBe(true);
});

it('gives every node a namespace, an address of each family and one for management', () => {
  expect(planLab(options).nodes[2]).toEqual({
    name: 'node-3',
    netns: expect.stringMatching(/^seine-[0-9a-f]{6}-node-3$/),
    ips: ['192.168.77.3', 'fd00:77::3'],
    managementIp: '172.31.255.4',
  });
});

it('puts every second node into the second of two subnets, behind a router', () => {
  const plan = planLab({ ...options, subnets: 2 });
  expect(plan.nodes.map((node) => [...node.ips, ...routerIps(plan, subnetOf(plan, node))])).toEqual([
    ['192.168.77.1', 'fd00:77::1', '192.168.77.254', 'fd00:77::fe'],
    ['192.168.78.2', 'fd00:78::2', '192.168.78.254', 'fd00:78::fe'],
    ['192.168.77.3', 'fd00:77::3', '192.168.77.254', 'fd00:77::fe'],
  ]);
  expect(parsePlan(JSON.stringify(plan))).toEqual(plan);
});

it('has only the requested families, in their order', () => {
  const plan = planLab({ ...options, families: ['ipv6'] });
  expect(plan.nodes[0]?.ips).toEqual(['fd00:77::1']);
  expect(plan.podCidrs).toEqual(['fd00:10:244::/56']);
  expect(planLab({ ...options, families: ['ipv6', 'ipv4'] }).serviceCidrs).toEqual(['fd00:10:96::/112', '10.96.0.0/12']);
});

it('puts networks in the order of the families and clears host bits', () => {
  expect(planLab({ ...options, podCidrs: ['fd01::/48', '10.7.8.9/16'] }).podCidrs).toEqual(['10.7.0.0/16', 'fd01::/48']);
});

it.each([
  [{ nodes: 0 }, '--nodes 0'],
  [{ nodes: 1.5 }, '--nodes 1.5'],
  [{ families: [] }, '--families'],
  [{ families: ['ipv4', 'ipv4'] as const }, '--families'],
  [{ podCidrs: ['10.0.0.0/16'] }, '--pod-cidr'],
  [{ podCidrs: ['10.0.0.0', 'fd00::/56'] }, '--pod-cidr "10.0.0.0"'],
  [{ podCidrs: ['10.0.0.0/21', 'fd00::/56'] }, '--pod-cidr 10.0.0.0/21: too small'],
  [{ podCidrs: ['10.0.0.0/16', 'fd00::/80'] }, '--pod-cidr fd00::/80: too small'],
  [{ podCidrs: ['192.168.0.0/16', 'fd00::/56'] }, '--pod-cidr 192.168.0.0/16: overlaps 192.168.77.0/24'],
  [{ serviceCidrs: ['10.0.0.0/16', '10.1.0.0/16'] }, '--service-cidr'],
  [{ serviceCidrs: ['10.244.0.0/20', 'fd01::/112'] }, '--service-cidr 10.244.0.0/20: overlaps 10.244.0.0/16'],
  [{ subnets: 3 }, '--subnets 3'],
  [{ subnets: 2, mode: 'noEncap' as const }, '--mode noEncap'],
  [{ dir: `/run/${'x'.repeat(80)}` }, '--dir'],
])('refuses %j and names the option', (part, option) => {
  expect(() => planLab({ ...options, ...part })).toThrow(option);
});

it('reads its own output and nothing else', () => {
  const plan = planLab(options);
  expect(parsePlan(JSON.stringify(plan))).toEqual(plan);
  expect(() => parsePlan('{"version":2}')).toThrow('lab.json');
});
