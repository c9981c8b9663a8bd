import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import type { Finding } from '../../../api/check.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { familiesOf, type NodeEnvironment } from '../../../dataplane/compile/environment.ts';
import type { Nftables } from '../../../netlink/nftables/nftables.ts';
import { readSysctl } from '../../../netlink/sysctl.ts';
import { type HostSetting, hostSettings } from '../../../nodes/local/host-settings.ts';
import type { TunnelPortType } from '../../../nodes/local/node-desired-state.ts';
import { filesThatSet } from '../../../nodes/local/setting-files.ts';
import type { NodeReader } from '../entries/node-reader.ts';
import { type Check, fine, reportAll, trouble } from './check.ts';

/** Feature of the kernel that packets need, and evidence that it exists even if the module list does not have it. */
interface ModuleFacts {
  readonly name: string;
  /** Purpose, after "without it". */
  readonly without: string;
  readonly loaded: boolean;
  /** True if this kernel has it, loaded or not; undefined if no folder of modules is visible from here. */
  readonly offered: boolean | undefined;
  /** True if the feature works; undefined if there is no evidence. */
  readonly works: boolean | undefined;
}

/** Modules by the type of the tunnel's port. */
const tunnelModules: Readonly<Record<TunnelPortType, string>> = { geneve: 'geneve', vxlan: 'vxlan', gre: 'ip_gre', ip6gre: 'ip6_gre' };

export interface KernelPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev'; readonly hostGateway: string; readonly tunnelInterface: string };
  readonly reader: Pick<NodeReader, 'interfaceState'>;
  readonly nftables: Pick<Nftables, 'run'>;
  readonly tunnelPort: () => TunnelPortType;
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly environment: NodeEnvironment };
}

/** Checks modules and settings of the kernel. */
export function kernel({ config, reader, nftables, tunnelPort, running }: KernelPort): Check {
  return {
    name: 'kernel',
    run: (_, reporter) => {
      const portWorks = (name: string): boolean | undefined => {
        const state = reader.interfaceState(name);
        return state && (state.ofPort ?? -1) > 0;
      };
      const facts = { gateway: portWorks(config.hostGateway), tunnel: portWorks(config.tunnelInterface), filter: filterWorks(nftables) };
      const needs = config.ovsDatapathType === 'system' ? kernelModules(tunnelPort(), facts) : userspaceModules(facts);
      reporter.finding(assessModules(needs.map((need) => ({ ...need, loaded: isLoaded(need.name), offered: isOffered(need.name) }))));
      const { environment } = running();
      reportAll(reporter, assessSettings(hostSettings(familiesOf(environment), environment.gateway.name), currentValue, settingFiles));
    },
  };
}

interface Working {
  readonly gateway: boolean | undefined;
  readonly tunnel: boolean | undefined;
  readonly filter: boolean;
}

type Need = Omit<ModuleFacts, 'loaded' | 'offered'>;

export function kernelModules(tunnel: TunnelPortType, works: Working): readonly Need[] {
  return [
    { name: 'openvswitch', without: 'no packet of a pod is forwarded', works: works.gateway },
    { name: tunnelModules[tunnel], without: 'pods of other nodes are not reached', works: works.tunnel },
    { name: 'nf_conntrack', without: 'no connection is tracked, and none forwarded', works: works.gateway },
    { name: 'nf_tables', without: 'nothing is masqueraded, and node ports do not answer', works: works.filter },
  ];
}

function userspaceModules(works: Working): readonly Need[] {
  return [
    { name: 'tun', without: 'the userspace data path has no gateway to the node', works: works.gateway },
    { name: 'nf_tables', without: 'nothing is masqueraded, and node ports do not answer', works: works.filter },
  ];
}

function filterWorks(nftables: KernelPort['nftables']): boolean {
  try {
    nftables.run('list tables');
    return true;
  } catch {
    return false;
  }
}

/** Built-in modules are in `/sys/module` only if they have parameters. */
function isLoaded(module: string): boolean {
  return existsSync(`/sys/module/${module}`);
}

function isOffered(module: string): boolean | undefined {
  const folder = `/lib/modules/${release()}`;
  try {
    const lists = ['modules.dep', 'modules.builtin'].map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
    return lists.some((list) => new RegExp(`/${module}\\.ko`, 'm').test(list));
  } catch {
    return undefined; // in a container without the host's folder
  }
}

export function assessModules(facts: readonly ModuleFacts[]): Finding {
  const lacking = facts.filter(({ loaded, works }) => works === false || (!loaded && works === undefined));
  if (lacking.length === 0) return fine('kernel.modules', `${facts.map(({ name }) => name).join(', ')}: there`);
  const names = lacking.map(
    ({ name, loaded, offered }) =>
      `${name} (${loaded ? 'loaded, but what needs it fails' : offered === false ? 'this kernel has none' : 'not loaded'})`,
  );
  const certain = lacking.some(({ works }) => works === false);
  return trouble('kernel.modules', certain ? 'problem' : 'warning', {
    what: names.join(', '),
    effect: lacking.map(({ name, without }) => `without ${name} ${without}`).join('; '),
    remedy: `modprobe -a ${lacking.map(({ name }) => name).join(' ')}`,
  });
}

function settingFiles({ name, value }: HostSetting): readonly string[] {
  return filesThatSet(name.join('/'), value);
}

function currentValue({ name }: HostSetting): string | undefined {
  try {
    return readSysctl(name).trim();
  } catch (thrown) {
    if (SeineError.from(thrown, name.join('.')).code === 'INVARIANT') throw thrown;
    return undefined; // there is no such setting: its interface does not exist, which other checks report
  }
}

/** @param filesOf files that set it to another value */
export function assessSettings(
  settings: readonly HostSetting[],
  read: (setting: HostSetting) => string | undefined,
  filesOf: (setting: HostSetting) => readonly string[] = () => [],
): readonly Finding[] {
  const wrong = settings.flatMap((setting) => {
    const found = read(setting);
    if (found === setting.value) return [];
    const name = setting.name.join('.');
    const files = filesOf(setting);
    const where = files.length === 0 ? '' : `; ${files.join(', ')} ${files.length === 1 ? 'sets' : 'set'} it`;
    return [
      trouble('kernel.settings', 'problem', {
        what: `${name} is ${found ?? 'not there'} and not ${setting.value}${where}`,
        effect: `it is needed because ${setting.why}`,
        remedy: `sysctl -w ${name}=${setting.value}`,
      }),
    ];
  });
  return wrong.length > 0 ? wrong : [fine('kernel.settings', `${settings.length} settings are as they must be`)];
}
