import { parseArgs } from 'node:util';
import { SeineError } from '../base/errors/seine-error.ts';
import { install, type ReportLine, remove, rollBack } from './install.ts';

const usage = `Usage: install-cni install|remove|rollback [options]

Installs Seine's CNI plugin and its configuration for the container runtime of this node; removes them;
or restores those from before the last change. A failure leaves the previous files.

  --bin-dir FOLDER     folder of the runtime's plugins (default /opt/cni/bin)
  --conf-dir FOLDER    folder of their configuration (default /etc/cni/net.d)
  --state-dir FOLDER   Seine's own (default /var/lib/seine)
  --conflist FILE      the configuration to install (default /etc/seine/10-seine.conflist)
  --source FOLDER      the plugins to install (default /opt/seine/cni)
`;

const text = (value: string) => ({ type: 'string', default: value }) as const;

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'bin-dir': text('/opt/cni/bin'),
      'conf-dir': text('/etc/cni/net.d'),
      'state-dir': text('/var/lib/seine'),
      conflist: text('/etc/seine/10-seine.conflist'),
      source: text('/opt/seine/cni'),
      help: { type: 'boolean', default: false },
    },
  });
  const folders = { bin: values['bin-dir'], conf: values['conf-dir'], state: values['state-dir'] };
  const report: ReportLine = (line) => void process.stderr.write(`install-cni: ${line}\n`);
  const verb = positionals.length === 1 ? positionals[0] : undefined;
  if (values.help) process.stdout.write(usage);
  else if (verb === 'install') install({ ...folders, source: values.source, conflist: values.conflist }, report);
  else if (verb === 'remove') remove(folders, report);
  else if (verb === 'rollback') rollBack(folders, report);
  else throw new SeineError('INVALID_INPUT', `one of install, remove, rollback is required\n${usage}`);
}

try {
  main();
} catch (thrown) {
  const { code, message } = SeineError.from(thrown, 'install-cni');
  process.stderr.write(`install-cni: ${message}\n`);
  process.exitCode = code === 'INVALID_INPUT' ? 2 : 1;
}
