import { ipFromValue } from '../../../base/net/ip.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import type { Action, CtAction } from '../../../openflow/actions/action.ts';
import type { ServiceEndpoint } from '../../compile/service-intent.ts';

/** Returns the endpoint that Seine's actions choose: they translate to it, or load it into the registers of the chosen endpoint. */
export function chosenEndpoint(actions: readonly Action[]): ServiceEndpoint | undefined {
  return translatedTo(actions) ?? loaded(actions);
}

/** Reports whether Seine's actions forward a connection untranslated, to an endpoint with the Service's address. */
export function choosesItself(actions: readonly Action[]): boolean {
  return actions.some((action) => action.kind === 'resubmit' && action.table === tables.egressEntry.id);
}

function translatedTo(actions: readonly Action[]): ServiceEndpoint | undefined {
  const ct = actions.find((action): action is CtAction => action.kind === 'ct');
  const { addresses, ports } = ct?.nat ?? {};
  if (addresses === undefined || ports === undefined) return undefined;
  return { ip: ipFromValue(addresses.family, BigInt(addresses.first)), port: ports.first };
}

/** Returns the endpoint from loads. Learned flows load IPv6 addresses as a whole, others in four parts. */
function loaded(actions: readonly Action[]): ServiceEndpoint | undefined {
  const port = loadedValue(actions, 'reg4', 0xffff);
  if (port === undefined) return undefined;
  const parts = ['reg12', 'reg13', 'reg14', 'reg15'].map((field) => loadedValue(actions, field));
  const joined = parts.reduce((sum, part) => (sum === undefined || part === undefined ? undefined : (sum << 32n) | part), 0n);
  const [ipv4, ipv6] = [loadedValue(actions, 'reg3'), loadedValue(actions, 'xxreg3') ?? joined];
  if (ipv6 !== undefined) return { ip: ipFromValue('ipv6', ipv6), port: Number(port) };
  return ipv4 === undefined ? undefined : { ip: ipFromValue('ipv4', ipv4), port: Number(port) };
}

function loadedValue(actions: readonly Action[], field: string, mask?: number): bigint | undefined {
  const found = actions.findLast((action) => isLoad(action, field, mask));
  return found?.kind === 'setField' && !(found.value instanceof Uint8Array) ? BigInt(found.value) : undefined;
}

function isLoad(action: Action, field: string, mask: number | undefined): boolean {
  return action.kind === 'setField' && action.field === field && (mask === undefined || Number(action.mask) === mask);
}
