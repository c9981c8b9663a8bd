import { exitCodes } from './exit-codes.ts';
import { run } from './program.ts';
import { terminalOf } from './terminal.ts';

const terminal = terminalOf({ out: process.stdout, err: process.stderr, env: process.env });
// The reader of the output may stop early, as head(1) does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? exitCodes.ok : exitCodes.usage));
process.stderr.on('error', () => undefined); // standard error is closed: the exit code says the rest
process.exitCode = await run(process.argv.slice(2), terminal, process.stdin);
