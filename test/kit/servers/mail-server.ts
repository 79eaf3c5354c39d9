import type { AddressInfo, Socket } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

/** What the server does at a step instead of taking it: an answer, silence, or the end of the line. */
type Turn = number | 'hang' | 'cut' | 'ok'

/** The answers of a step, in order; after the last one the step is accepted. `taken` = the mail is stored, and then this is answered. */
export type Script = Partial<Record<'login' | 'sender' | 'recipient' | 'taken', Turn[]>>

export interface MailServer {
  host: string
  port: number
  url: string
  script: Script
  /** Every stored mail, as it arrived. */
  received: string[]
  logins: { user: string; pass: string; encrypted: boolean }[]
  recipients: string[]
  stop(): Promise<void>
}

/** A mail server on loopback that answers by a script. */
export async function startMailServer(options: SMTPServerOptions = {}): Promise<MailServer> {
  const sockets = new Set<Socket>()
  const seen: Pick<MailServer, 'script' | 'received' | 'logins' | 'recipients'> = {
    script: {},
    received: [],
    logins: [],
    recipients: [],
  }
  const turn = (step: keyof Script, done: (error?: Error | null) => void) => {
    const next = seen.script[step]?.shift() ?? 'ok'
    if (next === 'ok') return done()
    if (next === 'cut') for (const socket of sockets) socket.destroy()
    if (typeof next === 'number') done(Object.assign(new Error(`scripted ${next}`), { responseCode: next }))
  }
  const server = new SMTPServer({
    authOptional: true,
    allowInsecureAuth: true,
    disableReverseLookup: true,
    logger: false,
    onAuth({ username, password }, { secure }, done) {
      seen.logins.push({ user: username ?? '', pass: password ?? '', encrypted: secure })
      turn('login', error => (error ? done(error) : done(null, { user: username ?? '' })))
    },
    onMailFrom: (_address, _session, done) => turn('sender', done),
    onRcptTo({ address }, _session, done) {
      seen.recipients.push(address)
      turn('recipient', done)
    },
    onData(stream, _session, done) {
      const pieces: Buffer[] = []
      stream.on('data', piece => pieces.push(piece))
      stream.on('end', () => {
        seen.received.push(Buffer.concat(pieces).toString())
        turn('taken', done)
      })
    },
    ...options,
  })
  server.on('error', () => {})
  server.server.on('connection', socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.server.address() as AddressInfo
  const place = { host: '127.0.0.1', port, url: `smtp://127.0.0.1:${port}` }
  const stop = () =>
    new Promise<void>(resolve => {
      server.close(resolve)
      for (const socket of sockets) socket.destroy()
    })
  return Object.assign(seen, place, { stop })
}

export interface ReadMail {
  headers: Record<string, string>
  text: string
}

/** A mail as its reader sees it. Throws when a header is there twice or a line is longer than the standard allows. */
export function readMail(raw: string): ReadMail {
  const lines = raw.split('\r\n')
  const long = lines.find(line => line.length > 78 || /[^\t\x20-\x7e]/.test(line))
  if (long !== undefined) throw new Error(`Not a line of mail: ${JSON.stringify(long)}`)
  const end = lines.indexOf('')
  const headers: Record<string, string> = {}
  for (const line of lines
    .slice(0, end)
    .join('\r\n')
    .replaceAll(/\r\n[ \t]/g, ' ')
    .split('\r\n')) {
    const [, name, value] = /^([\w-]+): (.*)$/.exec(line) ?? []
    if (!name || headers[name] !== undefined) throw new Error(`Not a header, or there twice: ${line}`)
    headers[name] = decodeWords(value ?? '')
  }
  return { headers, text: decodeQuoted(lines.slice(end + 1).join('\n')) }
}

function decodeWords(value: string): string {
  return value
    .replaceAll(/\?= =\?/g, '?==?')
    .replaceAll(/=\?UTF-8\?B\?([\w+/=]+)\?=/g, (_, word: string) => Buffer.from(word, 'base64').toString())
}

function decodeQuoted(text: string): string {
  const bytes = text
    .replaceAll('=\n', '')
    .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}
