/** A container's command: answers any request to port 80 with the container's host name. */
export const serveName = ['sh', '-c', 'hostname > /www/index.html; exec httpd -f -p 80 -h /www'];

/** Sends a request to such a server. Not busybox's wget: Debian's static one crashes when it resolves even an address. */
export const askName = (ip: string, port = 80): readonly string[] => [
  'sh',
  '-c',
  `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${ip} ${port}`,
];

/** Host name in an answer to `askName`. */
export const nameIn = (answer: string): string => answer.slice(answer.indexOf('\r\n\r\n') + 4).trim();

export const inUrl = (ip: string): string => (ip.includes(':') ? `[${ip}]` : ip);
