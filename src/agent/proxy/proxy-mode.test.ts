import { expect, it } from 'vitest';
import { silentLog } from '../../log/log.ts';
import { parseConfig } from '../config.ts';
import { type KubeProxySigns, noSigns } from './kube-proxy.ts';
import { ProxyMode } from './proxy-mode.ts';

const signal = new AbortController().signal;
const rules: KubeProxySigns = { rules: ['nftables table ip kube-proxy'], alive: false };

function mode(text: string) {
  let signs = noSigns;
  const made = new ProxyMode({ config: parseConfig(text, {}).proxy, look: async () => signs, log: silentLog });
  return { mode: made, find: (found: KubeProxySigns) => (signs = found) };
}

it('serves everything where there is no kube-proxy, and leaves it the rest where there is one, as it comes and goes', async () => {
  const t = mode('');
  expect(await t.mode.look(signal)).toBe(false);
  expect([t.mode.proxyAll, t.mode.sentence]).toEqual([true, 'on']);
  t.find(rules);
  expect(await t.mode.look(signal)).toBe(true);
  expect(t.mode.config.proxyAll).toBe(false);
  expect(t.mode.sentence).toBe(
    'off: kube-proxy serves node ports, external addresses and what the node itself sends (nftables table ip kube-proxy)',
  );
  t.find({ rules: [], alive: true });
  expect(await t.mode.look(signal)).toBe(false);
  expect(t.mode.sentence).toContain('it answers on its health address');
  t.find(noSigns);
  expect(await t.mode.look(signal)).toBe(true);
  expect(t.mode.proxyAll).toBe(true);
});

it('does what it is told, and says what a kube-proxy beside it takes', async () => {
  const [on, off] = [mode('proxy: { proxyAll: true }'), mode('proxy: { proxyAll: false }')];
  on.find(rules);
  expect(await on.mode.look(signal)).toBe(false);
  expect([on.mode.proxyAll, on.mode.sentence]).toEqual([true, expect.stringContaining('taken by kube-proxy')]);
  expect([off.mode.proxyAll, off.mode.sentence]).toEqual([false, 'off: proxy.proxyAll is false, and no kube-proxy was found']);
});

it('hands on what was configured', () => {
  const { config } = mode(
    'proxy: { skipServices: [a/b], proxyLoadBalancerIPs: false, serviceProxyName: x, externalIPRanges: [192.0.2.0/24] }',
  ).mode;
  expect(config).toMatchObject({
    skipServices: new Set(['a/b']),
    proxyLoadBalancerIps: false,
    serviceProxyName: 'x',
    externalIpRanges: [{ text: '192.0.2.0/24' }],
  });
});
