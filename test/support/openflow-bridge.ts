import { vi } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import { OpenFlowConnection, type OpenFlowConnectionOptions } from '../../src/openflow/connection/connection.ts';
import { type FlowMod, noInstructions, writeFlowMod } from '../../src/openflow/flows/flow-mod.ts';
import type { FlowStats } from '../../src/openflow/flows/flow-stats.ts';
import { encodeInstructions, type Instructions } from '../../src/openflow/flows/instructions.ts';
import { everyGroup, writeGroupMod } from '../../src/openflow/groups/group.ts';
import { encodeMatch, type Match } from '../../src/openflow/match/match.ts';
import { ALL_TABLES, type Version, versionNames } from '../../src/openflow/protocol.ts';
import { decodeUnsolicited, type Unsolicited } from '../../src/openflow/unsolicited.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';
import { testDatapath } from './test-datapath.ts';

/** The bridge `br-int` of a separate switch, and connections to it that last for one test. */
export class OpenFlowBridge {
  readonly ovs: TestSwitch;
  /** Unsolicited messages. */
  unasked: Unsolicited[] = [];
  #connections = new AbortController();

  /** @param options further arguments of ovs-vswitchd */
  constructor(...options: readonly string[]) {
    this.ovs = startSwitch(...options);
    const settings = [`datapath_type=${testDatapath}`, 'fail_mode=secure'];
    this.ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', ...settings);
  }

  /** Aborts with the next `disconnect`. */
  get signal(): AbortSignal {
    return this.#connections.signal;
  }

  /** Resolves when the connection is up. */
  async connect(options: Partial<OpenFlowConnectionOptions> = {}): Promise<OpenFlowConnection> {
    const connection = new OpenFlowConnection({ endpoint: `unix:${this.ovs.runDir}/br-int.mgmt`, unsolicited: this.#received, ...options });
    void connection.run(this.signal);
    await connection.untilUp(this.signal);
    return connection;
  }

  readonly #received = (message: Uint8Array): void => {
    this.unasked.push(decodeUnsolicited(message));
  };

  /** Waits for an unsolicited message. */
  hears<T>(find: (unasked: readonly Unsolicited[]) => T | undefined): Promise<T> {
    return vi.waitFor(
      () => {
        const found = find(this.unasked);
        if (found === undefined) throw new Error(`only ${this.unasked.map((each) => each.kind).join()} came`);
        return found;
      },
      { timeout: 10_000, interval: 5 },
    );
  }

  /** Ends all connections. */
  disconnect(): void {
    this.#connections.abort();
    this.unasked = [];
    this.#connections = new AbortController();
  }

  /** Removes every flow and group. */
  async empty(connection: OpenFlowConnection): Promise<void> {
    await connection.bundle([deleteAllFlows, bytesOf((w) => writeGroupMod(w, everyGroup))], this.signal);
  }

  /** Lets flows match and set `tun_metadata0`, four bytes. */
  mapTunnelOption(): void {
    this.ofctl('add-tlv-map', 'br-int', '{class=0x104,type=0x0,len=4}->tun_metadata0');
  }

  /** Output of ovs-ofctl for a bridge, in one version and with numbers for names. */
  ofctlLines(version: Version, ...words: readonly string[]): string[] {
    return linesOf(this.ovs.exec('ovs-ofctl', '-O', versionNames[version], '--no-names', ...words));
  }

  ofctl(...words: readonly string[]): string {
    return this.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', ...words);
  }

  async stop(): Promise<void> {
    this.disconnect();
    await this.ovs.stop();
  }
}

/** Non-empty lines, trimmed. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

export async function flowsOf(connection: OpenFlowConnection, signal: AbortSignal): Promise<FlowStats[]> {
  const entries: FlowStats[] = [];
  await connection.dumpFlows({}, (entry) => entries.push(entry), signal);
  return entries;
}

type GivenFlow = Partial<FlowMod> & Pick<FlowMod, 'table' | 'priority'> & { readonly does?: Instructions; readonly matches?: Match };

/** A flow-mod of OpenFlow 1.5, which adds by default. */
export function flowMod({ does, matches, ...mod }: GivenFlow): Uint8Array {
  const instructions = does === undefined ? noInstructions : encodeInstructions(does);
  return bytesOf((w) => writeFlowMod(w, { command: 'add', match: encodeMatch(matches ?? {}), instructions, ...mod }));
}

export const deleteAllFlows = flowMod({ command: 'delete', table: ALL_TABLES, priority: 0 });
