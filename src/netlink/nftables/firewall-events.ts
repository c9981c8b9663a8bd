import { existsSync } from 'node:fs';
import { SeineError } from '../../base/errors/seine-error.ts';
import { Attributes } from '../attributes.ts';
import { EventSocket, receiveQueueBytes } from '../event-socket.ts';
import type { NetlinkMessage } from '../message.ts';
import type { NetworkNamespace } from '../namespace.ts';
import { NetlinkSocket } from '../socket.ts';

/** Tables changed by one transaction of another process, of any family. After `overrun` any may have changed. */
export type FirewallChange = { readonly kind: 'tables'; readonly tables: ReadonlySet<string> } | { readonly kind: 'overrun' };

interface FirewallEventsOptions {
  /** Network namespace; default: the caller's own. */
  readonly namespace?: NetworkNamespace;
  /** Reports whether a thread belongs to this process, whose own changes are not reported. */
  readonly isOurThread?: (tid: number) => boolean;
}

/*
 * linux/netfilter/nfnetlink.h: the message type is subsystem << 8 | message; struct nfgenmsg (u8 family, u8 version,
 * u16 resource) before the attributes. linux/netfilter/nf_tables.h: attribute 1 names the table in every message but
 * NFT_MSG_NEWGEN, which ends a transaction and names its process in attribute 2 (network byte order).
 */
const NFNLGRP_NFTABLES = 7;
const NFNL_SUBSYS_NFTABLES = 10;
const NFT_MSG_NEWGEN = 15;
const NFTA_TABLE = 1;
const NFTA_GEN_PROC_PID = 2;
const nfgenmsgLength = 4;
/** Maximum number of tables in a transaction; more are reported as an overrun. */
const tablesMax = 1_000;

/**
 * Reports changes of nftables (nft(8)) by other processes, one call per transaction.
 *
 * Open first, list after that, so that no change is missed. The handler must not throw.
 */
export class FirewallEvents {
  readonly #events: EventSocket;
  readonly #handler: (change: FirewallChange) => void;
  readonly #isOurThread: (tid: number) => boolean;
  #touched = new Set<string>();

  private constructor(
    socket: NetlinkSocket,
    { isOurThread = isThreadOfOurs }: FirewallEventsOptions,
    handler: (change: FirewallChange) => void,
  ) {
    this.#handler = handler;
    this.#isOurThread = isOurThread;
    this.#events = new EventSocket(socket, (messages) => {
      if (messages === 'overrun') this.#lost();
      else for (const message of messages) this.#received(message);
    });
  }

  static open(options: FirewallEventsOptions, handler: (change: FirewallChange) => void): FirewallEvents {
    const { namespace } = options;
    const wanted = { protocol: 'netfilter', groups: [NFNLGRP_NFTABLES], receiveQueueBytes } as const;
    return new FirewallEvents(NetlinkSocket.open(namespace ? { ...wanted, namespace } : wanted), options, handler);
  }

  close(): void {
    this.#events.close();
  }

  #received({ type, payload }: NetlinkMessage): void {
    if (type >> 8 !== NFNL_SUBSYS_NFTABLES) return;
    if (payload.length < nfgenmsgLength) throw new SeineError('PROTOCOL', `nftables event of ${payload.length} bytes`);
    const attributes = new Attributes(payload.subarray(nfgenmsgLength), 'nftables event');
    if ((type & 0xff) === NFT_MSG_NEWGEN) this.#ended(bigEndian(attributes.bytes(NFTA_GEN_PROC_PID)));
    else this.#touch(attributes.text(NFTA_TABLE));
  }

  #ended(tid: number): void {
    const tables = this.#touched;
    this.#touched = new Set();
    if (!this.#isOurThread(tid)) this.#handler({ kind: 'tables', tables });
  }

  #touch(table: string | undefined): void {
    if (this.#touched.size >= tablesMax) this.#lost();
    else if (table !== undefined) this.#touched.add(table);
  }

  #lost(): void {
    this.#touched = new Set();
    this.#handler({ kind: 'overrun' });
  }
}

function bigEndian(bytes: Uint8Array | undefined): number {
  return bytes?.length === 4 ? new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0) : 0;
}

/** libnftables also runs in threads of libuv's pool; the kernel reports the thread. */
function isThreadOfOurs(tid: number): boolean {
  return existsSync(`/proc/self/task/${tid}`);
}
