import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { parseConfig } from './agent-config.ts';

describe('parseConfig', () => {
  it('has a default for every key except the name, which comes from the environment', () => {
    expect(parseConfig('', { NODE_NAME: 'worker-1' })).toMatchObject({
      nodeName: 'worker-1',
      ovsBridge: 'br-int',
      tunnelType: 'geneve',
      stateDir: '/var/lib/seine',
    });
  });
  it("accepts the settings of the proxy in Antrea's form", () => {
    expect(parseConfig('', {}).proxy).toEqual({
      nodePortAddresses: [],
      skipServices: [],
      proxyLoadBalancerIPs: true,
      serviceProxyName: '',
      externalIPRanges: [],
      bucketTranslation: true,
      disableServiceHealthCheckServer: false,
      healthzBindAddress: '[::]:10256',
      forgetTCPConnections: false,
    });
    const { proxy } = parseConfig(
      'proxy: { proxyAll: true, skipServices: [kube-system/kube-dns, "FD00::A"], nodePortAddresses: [primary, 10.0.0.0/8] }',
      {},
    );
    expect(proxy).toMatchObject({ proxyAll: true, skipServices: ['kube-system/kube-dns', 'fd00::a'] });
    expect(proxy.nodePortAddresses).toMatchObject(['primary', { text: '10.0.0.0/8' }]);
  });
  it('enforces policies, and blocks pods pending policy, by default', () => {
    expect(parseConfig('', {}).policy).toEqual({
      mode: 'enforce',
      denied: 'drop',
      whenUnknown: 'closed',
      unknownPeers: 'closed',
      logDenied: 'annotated',
      liveConnections: 'cut',
      directWatchPods: 20_000,
      ruleMetrics: false,
      serviceOpenings: 2_000,
    });
    const others = 'policy: { mode: audit, denied: reject, whenUnknown: refuse, logDenied: all, liveConnections: keep }';
    expect(parseConfig(others, {}).policy).toEqual({
      mode: 'audit',
      denied: 'reject',
      whenUnknown: 'refuse',
      unknownPeers: 'closed',
      logDenied: 'all',
      liveConnections: 'keep',
      directWatchPods: 20_000,
      ruleMetrics: false,
      serviceOpenings: 2_000,
    });
    expect(parseConfig('policy: { mode: "off" }', {}).policy.mode).toBe('off');
  });
  it.each([
    ['tunelType: geneve', /unknown field "tunelType"/],
    [
      'trafficEncapMode: networkPolicyOnly',
      /trafficEncapMode: "networkPolicyOnly" is not supported yet; supported: encap, noEncap, hybrid/,
    ],
    ['hybrid:\n  directCIDRs: [10.0.0.0/8]', /hybrid.directCIDRs: has no effect without trafficEncapMode: hybrid/],
    ['directRoutes: none', /directRoutes: has no effect with trafficEncapMode: encap/],
    ['trafficEncryptionMode: ipsec', /trafficEncryptionMode: "ipsec" is not supported yet; supported: none, wireGuard/],
    ['wireGuard: { port: 0 }', /wireGuard.port/],
    ['wireGuard: { unencryptedPeers: some }', /wireGuard.unencryptedPeers/],
    ['tunnelType: gneve', /tunnelType: "gneve" is unknown/],
    ['defaultMTU: 900', /defaultMTU: is below 1280/],
    ['serviceCIDR: fd00::/64', /serviceCIDR: is not an IPv4 CIDR/],
    ['serviceCIDR: 10.96.0.0', /serviceCIDR: "10.96.0.0" is not a CIDR/],
    ['ovsBridge: "br int"', /ovsBridge: is not an interface name/],
    ['serviceCIDR: 10.0.0.0/08', /serviceCIDR: "10.0.0.0\/08" has leading zeros; 10.0.0.0\/8 has not/],
    ['serviceCIDR: 10.96.0.1/12', /serviceCIDR: "10.96.0.1\/12" has host bits; the network is 10.96.0.0\/12/],
    ['serviceCIDRv6: "::ffff:10.0.0.0/104"', /serviceCIDRv6: .* is a network of IPv4 written as IPv6/],
    ['proxy: {externalIPRanges: [198.51.100.7/24]}', /proxy.externalIPRanges.0: "198.51.100.7\/24" has host bits/],
    ['transportInterfaceCIDRs: [10.0.0.0/8, x]', /transportInterfaceCIDRs.1: "x" is not a CIDR/],
    [`cniSocket: /${'x'.repeat(120)}`, /cniSocket: is longer than 107 bytes/],
    ['proxy: { nodePortAddresses: [all] }', /proxy.nodePortAddresses.0: /],
    ['proxy: { skipServices: [kube-dns] }', /proxy.skipServices.0: "kube-dns" is neither NAMESPACE\/NAME nor an address/],
    ['proxy: { serviceProxyName: "a b" }', /proxy.serviceProxyName: is not a valid label value/],
    ['proxy: { proxyall: true }', /unknown field "proxy.proxyall"/],
    ['policy: { mode: log }', /policy.mode: /],
    ['policy: { whenUnknown: deny }', /policy.whenUnknown: /],
    ['policy: { unknownPeers: refuse }', /policy.unknownPeers: /],
    ['policy: { Mode: audit }', /unknown field "policy.Mode"/],
    ['policy: { liveConnections: drain }', /policy.liveConnections: /],
    ['kubeAPIServerOverride: api.example', /kubeAPIServerOverride: is not an https:/],
    ['a: [', /configuration: /],
    ['noSNAT: "yes"\nlogLevel: loud', /noSNAT: .*; logLevel: /],
  ])('rejects %j with its path', (text, message) => expect(() => parseConfig(text, {})).toThrow(message));
});

it('does not print unknown content of the file', () => {
  const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  onTestFinished(() => emitted.mockRestore());
  expect(() => parseConfig('%odd: \u001b[31m\n', {})).toThrow('configuration: ');
  expect(emitted).not.toHaveBeenCalled();
});

it('requires certificate and key of the metrics together', () => {
  expect(() => parseConfig('metricsTLSCertFile: /c.pem', {})).toThrow('metricsTLSKeyFile: must be set together with metricsTLSCertFile');
  expect(() => parseConfig('metricsTLSKeyFile: /k.pem', {})).toThrow('metricsTLSKeyFile');
  expect(parseConfig('{metricsTLSCertFile: /c.pem, metricsTLSKeyFile: /k.pem}', {}).metricsTLSAddress).toBe('');
});
