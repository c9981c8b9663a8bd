import { isDeepStrictEqual } from 'node:util';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { ProxyConfig } from '../compile/proxy-config.ts';
import { type KubeProxySigns, noSigns } from './kube-proxy.ts';
import type { ServiceProxySettings } from './ports.ts';

/** Interval between checks for a kube-proxy (ms): its start or removal is noticed without a restart. */
const CHECK_EVERY_MS = 10_000;

interface ProxyModeOptions {
  readonly config: ServiceProxySettings;
  /** @throws SeineError if the check is not possible */
  readonly look: () => KubeProxySigns;
  /** Called after each check, with any result. */
  readonly looked?: () => void;
  readonly log: Log;
}

/** Share of Services that this agent serves, which depends on whether a kube-proxy runs on the node. */
export class ProxyMode {
  readonly #options: ProxyModeOptions;
  #signs: KubeProxySigns = noSigns;

  constructor(options: ProxyModeOptions) {
    this.#options = options;
  }

  get proxyAll(): boolean {
    return this.#options.config.proxyAll ?? !this.kubeProxyFound;
  }

  get kubeProxyFound(): boolean {
    return this.#signs.found.length > 0;
  }

  get config(): ProxyConfig {
    const { skipServices, proxyLoadBalancerIPs, serviceProxyName, externalIPRanges, bucketTranslation } = this.#options.config;
    return {
      proxyAll: this.proxyAll,
      skipServices: new Set(skipServices),
      proxyLoadBalancerIps: proxyLoadBalancerIPs,
      serviceProxyName,
      externalIpRanges: externalIPRanges,
      bucketTranslation,
    };
  }

  /** Summary for `seinectl status`: what is served, and the reason for any restriction. */
  get sentence(): string {
    const { config } = this.#options;
    const found = this.#signs.found.join(', ');
    if (!this.kubeProxyFound) return config.proxyAll === false ? 'off: proxy.proxyAll is false, and no kube-proxy was found' : 'on';
    if (!this.proxyAll) return `off: kube-proxy serves node ports, external addresses and what the node itself sends (${found})`;
    return `on, with a kube-proxy: packets of the node itself to cluster addresses are still handled by kube-proxy (${found})`;
  }

  /** Checks once; the first check belongs before the first Service. @returns whether the result has changed */
  look(): boolean {
    const before = { ...this.#signs, proxyAll: this.proxyAll };
    this.#signs = this.#options.look();
    this.#options.looked?.();
    if (isDeepStrictEqual(before, { ...this.#signs, proxyAll: this.proxyAll })) return false;
    this.#options.log.info('checked for kube-proxy', { ...this.#signs, proxyAll: this.sentence });
    return before.proxyAll !== this.proxyAll;
  }

  /** Calls back when the result has changed, until the signal. Never rejects: after a failed check the result stays. */
  async follow(changed: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await idle(CHECK_EVERY_MS, signal);
      if (!signal.aborted && this.#tryCheck(signal) && !signal.aborted) changed();
    }
  }

  #tryCheck(signal: AbortSignal): boolean {
    try {
      const changed = this.look();
      this.#options.log.working('kube-proxy');
      return changed;
    } catch (thrown) {
      if (!signal.aborted)
        this.#options.log.failing('kube-proxy', 'the check for kube-proxy failed', {
          cause: SeineError.from(thrown, 'check for kube-proxy').message,
        });
      return false;
    }
  }
}
