import { describe, expect, it } from 'vitest';
import { decodeReply, decodeRequest, encodeReply, encodeRequest } from './wire.ts';

const request = { env: { CNI_COMMAND: 'ADD' }, conf: '{"name":"n"}', deadlineMs: 1000, attempt: 1 };

describe('the plugin’s wire', () => {
  it('carries requests and answers unchanged', () => {
    expect(decodeRequest(encodeRequest(request))).toEqual(request);
    expect(decodeReply(encodeReply({ exit: 1, stdout: '{"code":7}' }))).toEqual({ exit: 1, stdout: '{"code":7}' });
  });

  it('ignores members that a newer peer adds', () => {
    const newer = JSON.stringify({ ...JSON.parse(encodeRequest(request)), env: { ...request.env, CNI_FUTURE: 'x' }, trace: { id: 7 } });
    expect(decodeRequest(newer)).toEqual(request);
    expect(decodeReply('{"v":2,"exit":0,"stdout":"","hints":[]}')).toEqual({ exit: 0, stdout: '' });
  });

  it.each([
    ['{"v":2,"env":{},"conf":"","deadlineMs":1,"attempt":1}', 'version 2 is not supported'],
    ['{"env":{},"conf":"","deadlineMs":1,"attempt":1}', 'version undefined is not supported'],
    ['{"v":1,"env":{},"conf":"","deadlineMs":0,"attempt":1}', 'deadlineMs is not a positive number'],
    ['{"v":1,"env":{"CNI_ARGS":1},"conf":"","deadlineMs":1,"attempt":1}', 'env.CNI_ARGS: 1 is not a string'],
    ['GET / HTTP/1.1', 'not JSON'],
  ])('refuses %s', (text, message) => {
    expect(() => decodeRequest(text)).toThrowError(expect.objectContaining({ code: 106, message: expect.stringContaining(message) }));
  });

  it.each(['{"v":1}', '{"v":1,"exit":300,"stdout":""}', '[]', ''])('refuses the answer %s', (text) => {
    expect(() => decodeReply(text)).toThrowError(expect.objectContaining({ code: 106 }));
  });
});
