import { idle } from '../../base/async/pause.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { FrameInjector } from '../../dataplane/packet-io/packet-out.ts';
import { announcement } from '../../netlink/packets/announce.ts';

/** So long after the first of pods that come together neighbours begin to be told of them, at the latest (ms). */
const PATIENCE_MS = 500;
/** So many at a time, so that flows of a pod that comes meanwhile wait some milliseconds for them. */
const AT_ONCE = 8;
/** Between these (ms). */
const PAUSE_MS = 10;

/** Who has which addresses at which port, as far as it still is so when neighbours are told. */
interface Announced {
  readonly ofPort: number;
  readonly mac: Mac;
  readonly addresses: readonly Ip[];
  readonly isCurrent: () => boolean;
}

interface AnnouncementsOptions {
  /** The agent's. */
  readonly shutdown: AbortSignal;
  /** Sends frames as if they came from a port. Not waited for. */
  readonly frames: Pick<FrameInjector, 'inject'>;
  readonly attaching: {
    /** Whether pods are being attached, of which the one that is announced is none any more. */
    readonly isCrowded: boolean;
    /** Resolves once no pod was attached for a moment, or after `patienceMs`. Never rejects. */
    quiet(patienceMs: number): Promise<void>;
  };
}

/**
 * Tells neighbours who has an address now. Each announcement goes to all ports of the bridge, so for pods that come together ovs-vswitchd sends as many frames as
 * their number squared: they get their answers first. One alone is announced at once.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions;
  readonly #held: Announced[] = [];
  #isSending = false;

  constructor(options: AnnouncementsOptions) {
    this.#options = options;
  }

  announce(pod: Announced): void {
    if (this.#isSending || this.#options.attaching.isCrowded) this.#held.push(pod);
    else this.#send(pod);
    if (this.#held.length > 0 && !this.#isSending) void this.#sendLater();
  }

  async #sendLater(): Promise<void> {
    const { attaching, shutdown } = this.#options;
    this.#isSending = true;
    await attaching.quiet(PATIENCE_MS);
    while (this.#held.length > 0 && !shutdown.aborted) {
      for (const pod of this.#held.splice(0, AT_ONCE)) if (pod.isCurrent()) this.#send(pod);
      await idle(PAUSE_MS, shutdown);
    }
    this.#isSending = false;
  }

  #send({ ofPort, mac, addresses }: Announced): void {
    this.#options.frames.inject(
      ofPort,
      addresses.map((ip) => announcement(mac, ip)),
    );
  }
}
