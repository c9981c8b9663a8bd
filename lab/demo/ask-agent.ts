import { request } from 'node:http';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { nodePaths } from '../plan/names.ts';
import type { DemoLab } from './scene.ts';

const answerMs = 20_000;
const answerBytesMax = 16 * 1024 * 1024;

/** Asks the agent of a node. @throws SeineError `REFUSED` with its message for any answer but success */
export function askAgent({ plan }: DemoLab, node: string, path: string, method: 'GET' | 'POST' = 'GET'): Promise<string> {
  const { apiSocket } = nodePaths(plan.dir, node);
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath: apiSocket, path, method, signal: AbortSignal.timeout(answerMs), agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        body += text;
        if (body.length > answerBytesMax) response.destroy(new SeineError('PROTOCOL', 'the response is too long'));
      });
      response.once('error', reject);
      response.once('end', () => (response.statusCode === 200 ? resolve(body) : reject(new SeineError('REFUSED', body.trim()))));
    });
    sent.once('error', reject);
    sent.end();
  });
}
