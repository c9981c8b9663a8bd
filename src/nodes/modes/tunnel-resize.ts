/**
 * Order of a change to the tunnel where packets of pods were as long as the network allows: first pods get an MTU that leaves room for the
 * tunnel, then packets are sent through it.
 */
export class TunnelResize {
  #usesTunnel: boolean;
  #fits: boolean;
  /** Called when a peer waits for the MTU. */
  needed: () => void = () => {};

  constructor(usesTunnel: boolean) {
    this.#usesTunnel = usesTunnel;
    this.#fits = usesTunnel;
  }

  get usesTunnel(): boolean {
    return this.#usesTunnel;
  }

  /** True if packets of pods fit into the tunnel. */
  get fits(): boolean {
    return this.#fits;
  }

  /** True from the moment when the tunnel is needed until pods have the MTU for it. */
  get isPending(): boolean {
    return this.#usesTunnel && !this.#fits;
  }

  /** The MTU grows at once, and shrinks before `done`. */
  want(usesTunnel: boolean): void {
    this.#usesTunnel = usesTunnel;
    if (!usesTunnel) this.#fits = false;
  }

  /** Notes that pods have the MTU. */
  done(): void {
    this.#fits = this.#usesTunnel;
  }
}
