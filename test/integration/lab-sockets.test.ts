import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { failureOf, openDescriptors, withWire } from './netlink-fixture.ts';

const never = new AbortController().signal;

it.each(['10.0.0.2', 'fd00::2'])('serves and calls by TCP inside namespaces, at %s', (text) =>
  withWire(async (one, two) => {
    const before = openDescriptors();
    const server = createServer((connection) => connection.end(`${connection.remoteAddress}`));
    server.listen({ fd: listenTcpIn(two.name, text, 8080) });
    await new Promise((resolve) => server.once('listening', resolve));
    const client = await connectTcpIn(one.name, text, 8080, AbortSignal.timeout(5_000));
    let received = '';
    for await (const chunk of client) received += String(chunk);
    client.destroy();
    expect(received).toBe(text.replace('2', '1'));
    await expect(connectTcpIn(one.name, text, 9, never)).rejects.toMatchObject({ context: { errno: 'ECONNREFUSED' } });
    expect(errnoOf(failureOf(() => listenTcpIn(two.name, text, 8080)))).toBe('EADDRINUSE');
    expect(errnoOf(failureOf(() => listenTcpIn(one.name, text, 8080)))).toBe('EADDRNOTAVAIL');
    await new Promise((resolve) => server.close(resolve));
    await expect.poll(() => openDescriptors()).toBe(before);
  }),
);

it('stops waiting for a connection that is not answered', () =>
  withWire(async (one) => {
    const before = openDescriptors();
    const caller = new AbortController();
    const connection = connectTcpIn(one.name, '10.0.0.77', 80, caller.signal);
    setImmediate(() => caller.abort());
    await expect(connection).rejects.toMatchObject({ code: 'CANCELLED' });
    await expect(connectTcpIn(one.name, '10.0.0.77', 80, AbortSignal.abort())).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    expect(openDescriptors()).toBe(before);
  }));

it('serves UDP inside a namespace', () =>
  withWire(async (one, two) => {
    const server = await bindUdpIn(two.name, '10.0.0.2', 5353);
    server.on('message', (message, { port, address }) => server.send(`${message} back`, port, address));
    const client = await bindUdpIn(one.name, '10.0.0.1', 0);
    const answer = new Promise<string>((resolve) => client.once('message', (message) => resolve(String(message))));
    client.send('hello', 5353, '10.0.0.2');
    expect(await answer).toBe('hello back');
    client.close();
    server.close();
  }));
