import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { parseMac } from '../../src/base/net/mac.ts';
import type { PodNetwork } from '../../src/pods/cni-server/pod-network.ts';
import type { AttachedPod, PodAttachment } from '../../src/pods/ipam/attachment.ts';

/** A pod network with namespaces to attach to. */
export interface PodNetworkSpecimen {
  readonly network: PodNetwork;
  /** Creates a namespace of a pod; returns its path. */
  makeNamespace(): string;
  /** Deletes it, with its content. */
  removeNamespace(path: string): void;
  /** Paths that no pod can be attached to, by the reason. */
  readonly unusable: Readonly<Record<string, string>>;
  /** Remains of pods, as sorted text; empty if nothing is left. */
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export const patience = (): AbortSignal => AbortSignal.timeout(20_000);
let last = 0;

/** A pod that no other test uses. */
export function newPod(netns: string, changes: Partial<PodAttachment> = {}): PodAttachment {
  const number = ++last;
  const bytes = `${(number >> 8).toString(16).padStart(2, '0')}:${(number & 255).toString(16).padStart(2, '0')}`;
  return {
    network: 'seine',
    containerId: `c${String(number).padStart(12, '0')}`,
    ifName: 'eth0',
    netns,
    pod: { namespace: 'default', name: `web-${number}`, uid: `u${number}` },
    addresses: [
      { ip: parseIp(`10.10.${number >> 8}.${number & 255}`), prefixLength: 22, gateway: parseIp('10.10.3.254') },
      { ip: parseIp(`fd00:10::${number.toString(16)}`), prefixLength: 64, gateway: parseIp('fd00:10::ffff') },
    ],
    mac: parseMac(`0e:aa:00:00:${bytes}`),
    ...changes,
  };
}

/** Contract of every `PodNetwork`. */
export function podNetworkContract(name: string, open: () => Promise<PodNetworkSpecimen>): void {
  describe(`${name} as a pod network`, () => {
    let specimen: PodNetworkSpecimen;
    beforeAll(async () => {
      specimen = await open();
    });
    afterAll(() => specimen.close());

    const withNamespace = async (work: (path: string) => Promise<void>): Promise<void> => {
      const path = specimen.makeNamespace();
      try {
        await work(path);
      } finally {
        specimen.removeNamespace(path);
      }
    };
    const attach = (pod: PodAttachment, signal = patience()): Promise<AttachedPod> => specimen.network.attach(pod, signal);
    const detach = (pod: PodAttachment): Promise<void> => specimen.network.detach(pod, patience());
    const check = (pod: PodAttachment, attached: AttachedPod): Promise<readonly string[]> =>
      specimen.network.check(pod, attached, patience());
    const expectNothingLeft = () => expect.poll(() => specimen.remains(), { timeout: 10_000 }).toEqual([]);

    it('attaches, has no differences, and leaves nothing', () =>
      withNamespace(async (path) => {
        const pod = newPod(path);
        const attached = await attach(pod);
        expect(await check(pod, attached)).toEqual([]);
        expect((await specimen.remains()).length).toBeGreaterThan(0);
        await detach(pod);
        expect(await check(pod, attached)).not.toEqual([]);
        await expectNothingLeft();
      }));

    it('succeeds for a second and an unknown detach', () =>
      withNamespace(async (path) => {
        const pod = newPod(path);
        await detach(pod);
        await attach(pod);
        await detach(pod);
        await detach(pod);
        await expectNothingLeft();
      }));

    it('attaches again right after a detach: the same pod, and another one in the same namespace', () =>
      withNamespace(async (path) => {
        const [pod, other] = [newPod(path), newPod(path)];
        for (const next of [pod, pod, other, pod]) {
          const attached = await attach(next);
          expect(await check(next, attached)).toEqual([]);
          await detach(next);
        }
        await expectNothingLeft();
      }));

    it.each([
      ['of another container', {}],
      ['of the same attachment', { containerId: 'same' }],
    ])('rejects an existing interface, %s, and keeps it', (_, same) =>
      withNamespace(async (path) => {
        const first = newPod(path, same);
        const attached = await attach(first);
        const refused = attach(newPod(path, same));
        await expect(refused).rejects.toMatchObject({ code: 'INVALID_INPUT', context: { variable: 'CNI_IFNAME' } });
        expect(await check(first, attached)).toEqual([]);
        await detach(first);
        await expectNothingLeft();
      }),
    );

    it('attaches a pod to two networks', () =>
      withNamespace(async (path) => {
        const [ipv4, ipv6] = newPod(path).addresses;
        if (!ipv4 || !ipv6) throw new Error('a pod of one family');
        const first = newPod(path, { addresses: [ipv4] });
        const second = newPod(path, { containerId: first.containerId, ifName: 'net1', network: 'second', addresses: [ipv6] });
        const [one, two] = [await attach(first), await attach(second)];
        await detach(second);
        expect(await check(first, one)).toEqual([]);
        expect(await check(second, two)).not.toEqual([]);
        await detach(first);
        await expectNothingLeft();
      }));

    it('attaches a pod to two networks of both families, and the first is not affected', () =>
      withNamespace(async (path) => {
        const first = newPod(path);
        const second = newPod(path, { containerId: first.containerId, ifName: 'net1', network: 'second' });
        const one = await attach(first);
        const two = await attach(second);
        expect(await check(first, one)).toEqual([]);
        expect(await check(second, two)).toEqual([]);
        await detach(first);
        expect(await check(second, two)).toEqual([]);
        await detach(second);
        await expectNothingLeft();
      }));

    it('blames the runtime for an invalid namespace', async () => {
      const gone = specimen.makeNamespace();
      specimen.removeNamespace(gone);
      for (const path of [gone, ...Object.values(specimen.unusable)])
        await expect(attach(newPod(path)), path).rejects.toMatchObject({ code: 'INVALID_INPUT', context: { variable: 'CNI_NETNS' } });
      await expectNothingLeft();
    });

    it('leaves nothing when its caller gives up, at any time', () =>
      withNamespace(async (path) => {
        await expect(attach(newPod(path), AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
        for (let turns = 0; turns < 12; turns++) {
          const pod = newPod(path);
          const stop = new AbortController();
          const attaching = attach(pod, stop.signal).then(
            () => 'attached',
            (thrown) => thrown.code,
          );
          for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
          stop.abort();
          if ((await attaching) === 'attached') await detach(pod);
          else expect(await attaching).toBe('CANCELLED');
        }
        await expectNothingLeft();
        const pod = newPod(path);
        expect(await check(pod, await attach(pod))).toEqual([]);
        await detach(pod);
      }));

    it('detaches a pod whose namespace is deleted', async () => {
      const path = specimen.makeNamespace();
      const pod = newPod(path);
      const attached = await attach(pod);
      specimen.removeNamespace(path);
      expect(await check(pod, attached)).not.toEqual([]);
      await detach(pod);
      await expectNothingLeft();
    });

    it('works on many concurrently', async () => {
      const paths = Array.from({ length: 12 }, () => specimen.makeNamespace());
      try {
        const pods = paths.map((path) => newPod(path));
        const attached = await Promise.all(pods.map((pod) => attach(pod)));
        const found = await Promise.all(pods.map((pod, index) => check(pod, attached[index] as AttachedPod)));
        expect(found.flat()).toEqual([]);
        expect(new Set(attached.map(({ hostIfName }) => hostIfName)).size).toBe(pods.length);
        await Promise.all(pods.map(detach));
        await expectNothingLeft();
      } finally {
        for (const path of paths) specimen.removeNamespace(path);
      }
    });
  });
}
