import { bytesOf } from '../../../base/bytes/bytes.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { decodeConfig, writeEmpty, writeSetConfig } from '../../../openflow/control.ts';
import { encodeMessage } from '../../../openflow/message.ts';
import { decodePorts, type Port, writePortDescRequest } from '../../../openflow/port.ts';
import { OPENFLOW_15 } from '../../../openflow/protocol.ts';
import { ofPorts, podOfPorts } from '../../pipeline/well-known.ts';
import { type BridgeKey, type BridgeValue, fragmentsKey, isFragmentsKey, portOfSettingKey, portSettingKey } from './bridge-entry.ts';

/**
 * Bits of a port's configuration that hide packets from flows. Down is left out: it is the interface's own state.
 *
 * Source: OpenFlow 1.5.1 `ofp_port_config`.
 */
const hiding = { 'no-receive': 1 << 2, 'no-forward': 1 << 5, 'no-packet-in': 1 << 6 } as const;
const HIDING_MASK = Object.values(hiding).reduce((sum, bit) => sum + bit, 0);
/** Names of `ovs-ofctl set-frags`, by the number in `SwitchConfig`. */
const fragmentModes: readonly string[] = ['normal', 'drop', 'reassemble', 'nx-match'];
const FRAGMENTS_NORMAL = 0;
const MISS_SEND_NOTHING = 0;

/** Reports whether another OpenFlow controller hides packets at a port of Seine's. Ports of others keep their configuration. */
export function isHiding({ number, config }: Pick<Port, 'number' | 'config'>): boolean {
  return number >= ofPorts.tunnel && number <= podOfPorts.last && (config & HIDING_MASK) !== 0;
}

/**
 * Visits OpenFlow settings that differ from those of a new bridge. No owner wants any, so each is a foreign change, and its removal
 * restores the default.
 */
export async function visitSettings(
  connection: Pick<OpenFlowConnection, 'request' | 'gather'>,
  see: (key: BridgeKey, value: BridgeValue) => void,
  signal: AbortSignal,
): Promise<void> {
  const asked = await connection.request(
    bytesOf((w) => writeEmpty(w, 'getConfigRequest')),
    signal,
  );
  const { fragments } = decodeConfig(asked);
  if (fragments !== FRAGMENTS_NORMAL) see(fragmentsKey, (fragmentModes[fragments] ?? String(fragments)) as BridgeValue);
  for (const port of await connection.gather(writePortDescRequest, decodePorts, signal))
    if (isHiding(port)) see(portSettingKey(port), settingOfPort(port));
}

/** Returns a port's setting in the words of `ovs-ofctl mod-port`. */
function settingOfPort({ config }: Port): BridgeValue {
  const set = Object.entries(hiding).flatMap(([name, bit]) => ((config & bit) === 0 ? [] : [name]));
  return set.join() as BridgeValue;
}

/** Restores defaults. A port that has been deleted meanwhile needs none. */
export async function restoreSettings(
  connection: Pick<OpenFlowConnection, 'apply'>,
  keys: readonly BridgeKey[],
  signal: AbortSignal,
): Promise<void> {
  if (keys.length === 0) return;
  try {
    await connection.apply(keys.map(restoring), signal);
  } catch (thrown) {
    if (!(thrown instanceof SeineError) || thrown.code !== 'REFUSED') throw thrown;
  }
}

function restoring(key: BridgeKey): Uint8Array {
  if (isFragmentsKey(key)) return bytesOf((w) => writeSetConfig(w, { fragments: FRAGMENTS_NORMAL, missSendLength: MISS_SEND_NOTHING }));
  const body = { ...portOfSettingKey(key), config: 0, mask: HIDING_MASK };
  return encodeMessage({ kind: 'portMod', version: OPENFLOW_15, xid: 0, body });
}
