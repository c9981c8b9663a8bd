import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * The processes of a run: those in its mount namespace, which all children inherit, also orphans and those with an emptied environment;
 * those that carry its mark, a variable of the environment, because some enter another mount namespace (`ip netns exec`); and the children
 * of either. Zombies are excluded.
 *
 * @returns {{ pid: number, command: string }[]}
 */
export function membersOf({ mountNamespace, mark }) {
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => describe(Number(name)));
  const members = new Set(processes.filter(({ pid }) => isMember(pid, { mountNamespace, mark })).map(({ pid }) => pid));
  const isBelow = ({ pid, parent }) => members.has(parent) && !members.has(pid);
  for (let more = processes.filter(isBelow); more.length > 0; more = processes.filter(isBelow))
    for (const { pid } of more) members.add(pid);
  return processes.filter(({ pid }) => members.has(pid)).map(({ pid }) => ({ pid, command: commandOf(pid) }));
}

export function mountNamespaceOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined; // it has ended
  }
}

function isMember(pid, { mountNamespace, mark }) {
  return mountNamespaceOf(pid) === mountNamespace || read(pid, 'environ').split('\0').includes(mark);
}

export function parentOf(pid) {
  return describe(pid)[0]?.parent;
}

/** Source: proc_pid_stat(5); the name may contain spaces and parentheses. */
function describe(pid) {
  const stat = read(pid, 'stat');
  const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return stat === '' || state === 'Z' || state === 'X' ? [] : [{ pid, parent: Number(parent) }];
}

function commandOf(pid) {
  return read(pid, 'cmdline').split('\0').join(' ').trim().slice(0, 200);
}

function read(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}
