import { idle } from '../../base/async/pause.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { FrameInjector } from '../../dataplane/packet-io/packet-out.ts';
import { announcement } from '../../netlink/packets/announce.ts';

/** Maximum delay of announcements after the first of several pods attached together (ms). */
const PATIENCE_MS = 500;
/** Number of announcements sent together, so that flows of a new pod wait only a few milliseconds for them. */
const AT_ONCE = 8;
/** Pause between these batches (ms). */
const PAUSE_MS = 10;

/** Addresses of a pod at a port, if `isCurrent` still returns true when they are announced. */
interface Announced {
  readonly ofPort: number;
  readonly mac: Mac;
  readonly addresses: readonly Ip[];
  readonly isCurrent: () => boolean;
}

interface AnnouncementsOptions {
  /** Aborts when the agent ends. */
  readonly shutdown: AbortSignal;
  /** Sends frames as if they came from a port. Not awaited. */
  readonly frames: Pick<FrameInjector, 'inject'>;
  readonly attaching: {
    /** True if pods are being attached, not counting the one that is announced. */
    readonly isCrowded: boolean;
    /** Resolves once no pod was attached for a moment, or after `patienceMs`. Never rejects. */
    quiet(patienceMs: number): Promise<void>;
  };
}

/**
 * Announces addresses of new pods to neighbours. Each announcement goes to all ports of the bridge, so for pods attached together
 * ovs-vswitchd sends a number of frames that is quadratic in their number; their ADDs are answered first. A single pod is announced at
 * once.
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
