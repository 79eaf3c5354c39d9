import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createServer } from 'node:tls'
import { BSON } from 'mongodb'

type Reply = Record<string, unknown>
/** The answer to a command; it has the name of the command, and the user who is logged in. */
export type Answer = (command: Reply, user: string | null) => Reply

const message = 2013
const headerBytes = 16

/** A refusal, as MongoDB writes it. */
export const refusal = (code: number, codeName: string): Reply => ({ ok: 0, code, codeName, errmsg: codeName })

/**
 * Speaks the protocol of MongoDB with TLS at a socket, and answers `hello` and the logins of `password`; all other commands are
 * answered by the test, in MongoDB's words. For what no server that can be run here does.
 */
export async function scriptedMongod(
  path: string,
  pair: { key: string; cert: string },
  { password, answer }: { password: string; answer: Answer },
) {
  const commands: Reply[] = []
  const sockets = new Set<Socket>()
  const server = createServer(pair, socket => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    let received = Buffer.alloc(0)
    const session = newSession(password)
    socket.on('data', bytes => {
      received = Buffer.concat([received, bytes])
      while (received.length >= headerBytes && received.length >= received.readInt32LE(0)) {
        const length = received.readInt32LE(0)
        socket.write(replyTo(received.subarray(0, length)))
        received = received.subarray(length)
      }
    })
    function replyTo(request: Buffer): Buffer {
      // The driver's first message is in the former form: flags, name of the collection, two numbers, and the command.
      const modern = request.readInt32LE(12) === message
      const command = BSON.deserialize(request.subarray(modern ? 21 : request.indexOf(0, 20) + 9))
      const greeting = 'hello' in command || 'ismaster' in command
      const own = greeting ? answer({ hello: 1 }, null) : session.answer(command)
      if (!own) commands.push(command)
      const document = BSON.serialize(own ?? answer(command, session.user()))
      return (modern ? inMessage : inReply)(request.readInt32LE(4), document)
    }
  })
  server.listen(path)
  await once(server, 'listening')
  return {
    /** The commands that it received, without greetings and logins. */
    commands,
    close(): void {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

function newSession(password: string) {
  let user: string | null = null
  let claimed = ''
  let asked = ''
  const salt = randomBytes(16)
  const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const salted = pbkdf2Sync(password, salt, 4096, 32, 'sha256')
  const clientKey = hmac(salted, 'Client Key')

  function start(payload: string): Reply {
    const bare = payload.slice('n,,'.length)
    const [, name = '', nonce] = /^n=([^,]*),r=(.*)$/.exec(bare) ?? []
    claimed = name
    const first = `r=${nonce}${randomBytes(9).toString('base64')},s=${salt.toString('base64')},i=4096`
    asked = `${bare},${first}`
    return { ok: 1, conversationId: 1, done: false, payload: new BSON.Binary(Buffer.from(first)) }
  }

  function finish(payload: string): Reply {
    const [, bare, proof = ''] = /^(.*),p=(.*)$/.exec(payload) ?? []
    const signature = hmac(createHash('sha256').update(clientKey).digest(), `${asked},${bare}`)
    const expected = Buffer.from(clientKey.map((byte, i) => byte ^ signature[i]!))
    if (!expected.equals(Buffer.from(proof, 'base64'))) return refusal(18, 'AuthenticationFailed')
    user = claimed
    const answer = `v=${hmac(hmac(salted, 'Server Key'), `${asked},${bare}`).toString('base64')}`
    return { ok: 1, conversationId: 1, done: true, payload: new BSON.Binary(Buffer.from(answer)) }
  }

  const textOf = (command: Reply): string => (command.payload as BSON.Binary).toString('utf8')
  return {
    user: () => user,
    /** Null when the command is none of the login. */
    answer(command: Reply): Reply | null {
      if ('saslStart' in command) return start(textOf(command))
      return 'saslContinue' in command ? finish(textOf(command)) : null
    },
  }
}

function inMessage(to: number, document: Uint8Array): Buffer {
  const head = Buffer.alloc(21)
  head.writeInt32LE(head.length + document.length, 0)
  head.writeInt32LE(to, 8)
  head.writeInt32LE(message, 12)
  return Buffer.concat([head, document])
}

function inReply(to: number, document: Uint8Array): Buffer {
  const head = Buffer.alloc(36)
  head.writeInt32LE(head.length + document.length, 0)
  head.writeInt32LE(to, 8)
  head.writeInt32LE(1, 12)
  head.writeInt32LE(1, 32)
  return Buffer.concat([head, document])
}
