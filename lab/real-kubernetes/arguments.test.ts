import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { planLab } from '../plan/plan.ts';
import { Certificates, extensionsText } from './certificates.ts';
import { clusterDnsObjects } from './cluster-dns.ts';
import { controlPlaneArguments, serviceAddress } from './control-plane-arguments.ts';
import { containerdConfig, kubeletArguments, kubeletConfig, mountScript } from './node-files.ts';
import { controlPlanePaths, runtimePaths } from './paths.ts';

const kubernetes = { version: '1.2.3', programs: '/cache/programs', images: '/cache/images' };
const options = { nodes: 2, dir: '/run/lab', tunnel: 'geneve', datapath: 'netdev', kubernetes } as const;
const plan = planLab({ ...options, families: ['ipv4', 'ipv6'] });
const argumentsOf = (of: typeof plan) => controlPlaneArguments(of, controlPlanePaths(of.dir), new Certificates('/pki'));

describe('the control plane', () => {
  it('has the address of the first family, and a mask for each of two', () => {
    const { 'kube-apiserver': server, 'kube-controller-manager': controllers } = argumentsOf(plan);
    expect(server).toContain('--advertise-address=192.168.77.253');
    expect(controllers).toContain('--node-cidr-mask-size-ipv4=22');
    expect(controllers).toContain('--node-cidr-mask-size-ipv6=64');
  });

  it('follows the order of the families', () => {
    const second = planLab({ ...options, families: ['ipv6', 'ipv4'] });
    const { 'kube-apiserver': server, 'kube-controller-manager': controllers } = argumentsOf(second);
    expect(server).toContain('--advertise-address=fd00:77::fd');
    expect(server).toContain('--service-cluster-ip-range=fd00:10:96::/112,10.96.0.0/12');
    expect(controllers).toContain('--cluster-cidr=fd00:10:244::/56,10.244.0.0/16');
  });

  it('has one mask without a family in a cluster of one', () => {
    const { 'kube-controller-manager': controllers } = argumentsOf(planLab({ ...options, families: ['ipv6'] }));
    expect(controllers.filter((word) => word.startsWith('--node-cidr-mask'))).toEqual(['--node-cidr-mask-size=64']);
  });

  it('has certificates with names and addresses, or with none', () => {
    expect(extensionsText(['kubernetes', '10.96.0.1', 'fd00::1'])).toContain('subjectAltName=DNS:kubernetes,IP:10.96.0.1,IP:fd00::1\n');
    expect(extensionsText([])).not.toContain('subjectAltName');
  });
});

describe('a node', () => {
  const paths = runtimePaths(plan, 'node-1');
  const [node] = plan.nodes;

  it('has a kubelet with its own addresses, control group and DNS server', () => {
    expect(node && kubeletArguments(plan, node, paths, '/kubeconfig')).toContain('--node-ip=192.168.77.1,fd00:77::1');
    expect(parse(kubeletConfig(plan, 'node-1', paths, '/ca.crt'))).toMatchObject({
      cgroupRoot: `/seine-${plan.id}-node-1`,
      clusterDNS: ['10.96.0.10'],
      failCgroupV1: false,
    });
  });

  it("has a runtime that finds plugins in the lab's folders", () => {
    const text = containerdConfig({
      paths,
      pauseImage: 'pause:1',
      pluginFolders: ['/lab/bin', '/usr/lib/cni'],
      confFolder: '/net.d',
      netnsBelowState: true,
    });
    expect(text).toContain('bin_dirs = ["/lab/bin","/usr/lib/cni"]');
    expect(text).toContain('sandbox = "pause:1"');
    expect(text).toMatch(/nri\.v1\.nri'\]\n {2}disable = true/);
    expect(text).toContain(`root = "/var/lib/seine-lab/${plan.id}/node-1/containerd"`);
  });

  it('keeps its mounts private, and shares the namespaces of pods', () => {
    const script = mountScript(paths, ['/run/netns']);
    expect(script).toContain(`'${paths.netns}'|`);
    expect(script).toContain(`mount --bind '${paths.kubelet}' /var/lib/kubelet`);
    expect(script.trimEnd().split('\n').at(-1)).toBe('exec sleep infinity');
  });
});

it("has on a bare node the folders of an installed network, and none of the host's", () => {
  const bare = runtimePaths({ ...plan, bare: true }, 'node-1');
  const script = mountScript(bare, []);
  for (const place of ['/etc/cni/net.d', '/opt/cni/bin', '/run/seine', '/var/lib/seine', '/run/openvswitch', '/var/lib/openvswitch'])
    expect(script).toContain(` ${place}\n`);
  expect(script).toContain(`while mountpoint -q /run/netns; do umount -l /run/netns; done; mount --bind '${bare.netns}' /run/netns`);
  expect(script).not.toContain("'/run/netns'/*");
});

it("gives CoreDNS the tenth address of the Services' networks, one per family", () => {
  expect(serviceAddress(plan, 10n)).toEqual(['10.96.0.10', 'fd00:10:96::a']);
  const service = clusterDnsObjects(plan).find(({ name }) => name === 'kube-dns');
  expect(service?.object).toMatchObject({ spec: { clusterIPs: ['10.96.0.10', 'fd00:10:96::a'], ipFamilyPolicy: 'RequireDualStack' } });
});
