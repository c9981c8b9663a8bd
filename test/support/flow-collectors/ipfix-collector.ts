import { createSocket } from 'node:dgram';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { ipFromValue } from '../../../src/base/net/ip.ts';
import type { CollectedFlow, FlowCollector } from './collector.ts';
import { IpfixReader } from './read-ipfix.ts';

interface IpfixCollectorOptions {
  readonly transport: 'tcp' | 'udp' | 'tls';
  /** 0 for any. */
  readonly port?: number;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Collector of IPFIX at a port of this host. Each connection is a session of its own. */
export class IpfixCollector implements FlowCollector {
  readonly sessions: IpfixReader[] = [];
  readonly port: number;
  readonly #close: () => Promise<void>;

  private constructor(port: number, close: () => Promise<void>) {
    [this.port, this.#close] = [port, close];
  }

  static async open({ transport, port = 0, tls = { key: '', cert: '' } }: IpfixCollectorOptions): Promise<IpfixCollector> {
    if (transport === 'udp') return await IpfixCollector.#openDatagrams(port);
    const sockets = new Set<Socket>();
    let collector: IpfixCollector | undefined;
    const accept = (socket: Socket): void => {
      const reader = new IpfixReader();
      collector?.sessions.push(reader);
      sockets.add(socket);
      socket.on('error', () => undefined).on('data', (chunk) => reader.stream(chunk));
    };
    const server = transport === 'tls' ? createTlsServer(tls, accept) : createServer(accept);
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
    collector = new IpfixCollector((server.address() as AddressInfo).port, async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
    return collector;
  }

  static async #openDatagrams(port: number): Promise<IpfixCollector> {
    const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 2 ** 20 });
    const readers = new Map<number, IpfixReader>();
    await new Promise<void>((resolve, reject) => socket.once('error', reject).bind(port, '127.0.0.1', resolve));
    const collector = new IpfixCollector(socket.address().port, () => new Promise((resolve) => socket.close(() => resolve())));
    socket.on('message', (message, { port: from }) => {
      let reader = readers.get(from);
      if (!reader) {
        readers.set(from, (reader = new IpfixReader()));
        collector.sessions.push(reader);
      }
      reader.message(message);
    });
    return collector;
  }

  received(): Promise<readonly CollectedFlow[]> {
    return Promise.resolve(
      this.sessions.flatMap(({ records }) => records.filter(({ values }) => values.has('0/4')).map(({ values }) => flowOf(values))),
    );
  }

  close(): Promise<void> {
    return this.#close();
  }
}

type Values = IpfixReader['records'][number]['values'];

function flowOf(values: Values): CollectedFlow {
  const number = (key: string): bigint => BigInt(`0x${values.get(key)?.toString('hex') || '0'}`);
  const text = (element: number): string => values.get(`56506/${element}`)?.toString('utf8') ?? '';
  const family = values.has('0/8') ? 'ipv4' : 'ipv6';
  const address = (key: string): string => ipFromValue(family, number(key)).text;
  const [from, to, cluster] = family === 'ipv4' ? ['0/8', '0/12', '56506/106'] : ['0/27', '0/28', '56506/107'];
  const name = (namespace: number, own: number): string => (text(own) === '' ? '' : `${text(namespace)}/${text(own)}`);
  const event = number('0/233');
  const isCounted = values.has('0/2');
  return {
    timeMs: Number(number('0/323')),
    verdict: event === 3n ? 'denied' : event === 4n ? 'would-deny' : 'allowed',
    isEnd: event === 2n,
    protocol: Number(number('0/4')),
    source: `${address(from)} ${number('0/7')}`,
    destination: `${address(to)} ${number('0/11')}`,
    sourcePod: name(100, 101),
    destinationPod: name(102, 103),
    service: text(109) === '' ? '' : `${text(109)} ${address(cluster)} ${number('56506/108')}`,
    egressPolicy: name(113, 112),
    ingressPolicy: name(111, 110),
    ...(isCounted && {
      packets: { out: number('0/2'), in: number('29305/2') },
      bytes: { out: number('0/1'), in: number('29305/1') },
    }),
  };
}
