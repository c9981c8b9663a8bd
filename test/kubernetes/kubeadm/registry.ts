import { basename, join } from 'node:path';
import { z } from 'zod';
import { inNetns, runIn } from '../../../lab/machine/netns.ts';
import { labMark, run } from '../../../lab/machine/process.ts';
import { labPaths, netnsPath } from '../../../lab/plan/names.ts';
import type { LabPlan } from '../../../lab/plan/plan.ts';
import { type LocalRegistry, startLocalRegistry } from '../../support/local-registry.ts';

const port = 5000;
const MIB = 1 << 20;

const manifest = z.looseObject({
  config: z.looseObject({ size: z.number() }),
  layers: z.array(z.looseObject({ size: z.number(), digest: z.string() })),
});

/** An image in the registry. */
export interface PushedImage {
  readonly name: string;
  readonly digest: string;
  /** Bytes that a node downloads: layers as they are stored, and the configuration. */
  readonly compressedBytes: number;
  readonly layerBytes: readonly number[];
}

/** The image registry of a lab, on the management network of its nodes. It speaks plain HTTP. */
export class Registry {
  /** Host and port, as in names of images. */
  readonly host: string;
  readonly #plan: LabPlan;
  readonly #crane: string;
  readonly #folder: string;
  #running: LocalRegistry | undefined;

  /** @param crane path of the client, github.com/google/go-containerregistry */
  constructor(plan: LabPlan, crane: string) {
    this.#plan = plan;
    this.#crane = crane;
    this.#folder = join(labPaths(plan.dir).apiServer, 'registry');
    this.host = `${plan.management.ip}:${port}`;
  }

  /** Starts it in the namespace of the management network, with what was pushed before. */
  async start(signal: AbortSignal): Promise<void> {
    const { netns, ip } = this.#plan.management;
    const before = ['env', `${labMark}=${this.#plan.id}`, 'nsenter', `--net=${netnsPath(netns)}`, '--'];
    this.#running = await startLocalRegistry(this.#folder, { ip, port, before }, signal);
  }

  async stop(): Promise<void> {
    await this.#running?.close();
    this.#running = undefined;
  }

  /** @param archive as `docker save` writes it, with one image. @param name without the registry */
  async push(archive: string, name: string, signal: AbortSignal): Promise<PushedImage> {
    await this.#client(['push', archive, `${this.host}/${name}`], signal);
    return await this.image(name, signal);
  }

  /** Pushes an image of podman's storage. @param options of podman that name the storage */
  async pushFromPodman(options: readonly string[], image: string, name: string, signal: AbortSignal): Promise<PushedImage> {
    const words = [...options, 'push', '--tls-verify=false', image, `${this.host}/${name}`];
    const inside = inNetns(this.#plan.management.netns, 'podman', words);
    await run(inside.command, inside.args, {}, signal);
    return await this.image(name, signal);
  }

  /** Adds an image that differs from another in a label, and so in its digest. @param name without the registry */
  async pushVariant(of: PushedImage, name: string, signal: AbortSignal): Promise<PushedImage> {
    await this.#client(['mutate', this.byDigest(of), '--label', `variant=${name}`, '--tag', `${this.host}/${name}`], signal);
    return await this.image(name, signal);
  }

  async image(name: string, signal: AbortSignal): Promise<PushedImage> {
    const whole = `${this.host}/${name}`;
    const digest = (await this.#client(['digest', whole], signal)).trim();
    const { config, layers } = manifest.parse(JSON.parse(await this.#client(['manifest', whole], signal)));
    const layerBytes = layers.map(({ size }) => size);
    return { name: whole, digest, compressedBytes: layerBytes.reduce((sum, size) => sum + size, config.size), layerBytes };
  }

  /** @returns the name of an image with its digest instead of its tag */
  byDigest({ name, digest }: PushedImage): string {
    return `${name.replace(/:[^:/]+$/, '')}@${digest}`;
  }

  async #client(args: readonly string[], signal: AbortSignal): Promise<string> {
    return await runIn(this.#plan.management.netns, this.#crane, [...args, '--insecure'], {}, signal);
  }
}

/** @returns a line for the record */
export function sizeLine({ name, compressedBytes, layerBytes }: PushedImage): string {
  const mib = (bytes: number) => (bytes / MIB).toFixed(1);
  return `${basename(name)}: ${mib(compressedBytes)} MiB compressed, layers ${layerBytes.map(mib).join(' + ')}`;
}
