/** A port of the bridge with its one interface, identified by its name. */
export interface WantedPort {
  readonly name: string;
  /** `''` for an interface of the kernel, `internal`, or a tunnel type (ovs-vswitchd.conf.db(5) Interface "type"). */
  readonly type: string;
  /** The OpenFlow port number; ours, so that a restart of the switch gives the same flows. */
  readonly ofPort: number;
  readonly options: Readonly<Record<string, string>>;
  /** Says whose it is; for people, and to find the pods again when everything else is lost. */
  readonly externalIds: Readonly<Record<string, string>>;
  /** Set for interfaces that the switch itself makes. */
  readonly mac?: string;
  readonly mtu?: number;
}

/** The bridge itself. */
export interface WantedBridge {
  readonly name: string;
  readonly datapathType: 'system' | 'netdev';
  /** Names of the tables, so that `ovs-ofctl --names` shows them. */
  readonly tableNames: ReadonlyMap<number, string>;
}
