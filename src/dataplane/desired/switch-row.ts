/** Port of the bridge with its single interface, identified by its name. */
export interface WantedPort {
  readonly name: string;
  /** `''` for an interface of the kernel, `internal`, or a tunnel type (ovs-vswitchd.conf.db(5) Interface "type"). */
  readonly type: string;
  /** OpenFlow port number. Chosen by Seine, so that flows are the same after a restart of OVS. */
  readonly ofPort: number;
  readonly options: Readonly<Record<string, string>>;
  /** Owner of the port; for operators, and to find the pods again when all other state is lost. */
  readonly externalIds: Readonly<Record<string, string>>;
  /** Set for interfaces that OVS itself creates. */
  readonly mac?: string;
  readonly mtu?: number;
}

/** Desired state of the bridge itself. */
export interface WantedBridge {
  readonly name: string;
  readonly datapathType: 'system' | 'netdev';
  /** Names of the tables, so that `ovs-ofctl --names` shows them. */
  readonly tableNames: ReadonlyMap<number, string>;
}
