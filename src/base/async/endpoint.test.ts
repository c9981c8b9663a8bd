import { expect, it } from 'vitest';
import { dialEndpoint, parseEndpoint } from './endpoint.ts';

it('reads what Open vSwitch writes', () => {
  expect(parseEndpoint('unix:/run/openvswitch/db.sock')).toEqual({ kind: 'unix', path: '/run/openvswitch/db.sock' });
  expect(parseEndpoint('tcp:127.0.0.1:6640')).toEqual({ kind: 'tcp', host: '127.0.0.1', port: 6640 });
  expect(parseEndpoint('tcp:[fd00::1]:6640')).toEqual({ kind: 'tcp', host: 'fd00::1', port: 6640 });
  expect(parseEndpoint('ssl:db.example:6640')).toEqual({ kind: 'ssl', host: 'db.example', port: 6640 });
});

it.each([
  '',
  'unix:',
  '/run/db.sock',
  'tcp:host',
  'tcp:host:0',
  'tcp:host:65536',
  'tcp:fd00::1:6640',
  'ssl:h',
  'tls:h:1',
  `unix:/${'x'.repeat(107)}`,
])('refuses %s', (text) => {
  expect(() => parseEndpoint(text)).toThrow('[INVALID_INPUT]');
});

it('does not open TLS without credentials', () => {
  expect(() => dialEndpoint(parseEndpoint('ssl:127.0.0.1:1'))).toThrow('[INVALID_INPUT] endpoint ssl:127.0.0.1:1 needs a key');
});
