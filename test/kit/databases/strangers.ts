import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { comesTrue } from '../comes-true.ts'
import { namespace } from '../servers/network-namespace.ts'
import { relayTo } from '../servers/relay.ts'

type Cleanup = () => unknown

export interface Crowd {
  /** Connections that each address has open now. */
  open(): number[]
  /** Resolves when all have opened as many as they get, and have been refused more. */
  full(): Promise<void>
  leave(): Promise<void>
}

export type Elsewhere = Awaited<ReturnType<typeof placeElsewhere>>

/** A machine next to this one, with addresses of its own that nothing here translates. For root; `clean` removes it. */
export async function placeElsewhere() {
  const cleanups: Cleanup[] = []
  const { through, run } = await namespace(
    { teardown: (work: Cleanup) => void cleanups.unshift(work) },
    { seconds: 900 },
  )
  const device = `far${randomBytes(4).toString('hex')}`
  const net = `198.18.${randomInt(0, 256)}.${randomInt(0, 32) * 8}`
  const [machine = '', ...addresses] = Array.from({ length: 6 }, (_, n) =>
    net.replace(/\d+$/, last => String(Number(last) + n + 1)),
  )
  await run('ip', 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', device, 'netns', String(process.pid))
  const here = (...words: string[]) => command('ip', words)
  await here('address', 'add', `${machine}/29`, 'dev', device)
  await here('link', 'set', device, 'up')
  for (const address of addresses) await run('ip', 'address', 'add', `${address}/29`, 'dev', 'eth0')
  await run('ip', 'link', 'set', 'eth0', 'up')

  const start = (program: string, ...args: string[]): ChildProcess => {
    const child = spawn(through[0]!, [...through.slice(1), process.execPath, '-e', program, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    cleanups.unshift(() => end(child))
    return child
  }

  return {
    /** Address of this machine that it reaches. */
    machine,
    addresses,

    /** Keeps trying to have so many connections from each address that do not log in. */
    crowd(port: number, engine: EngineName, from: readonly string[], each: number): Crowd {
      const child = start(crowdProgram, machine, String(port), engine, JSON.stringify(from), String(each))
      let seen = { open: from.map(() => 0), refused: 0 }
      createInterface({ input: child.stdout! }).on('line', line => {
        seen = JSON.parse(line)
      })
      return {
        open: () => seen.open,
        async full() {
          const before = seen.refused
          await comesTrue(() => seen.refused > before + 40)
        },
        leave: () => end(child),
      }
    },

    /** The port of this machine's loopback that leads to the database by way of that address. */
    async through(address: string, port: number, folder: string): Promise<number> {
      const socket = join(folder, `${randomBytes(4).toString('hex')}.sock`)
      await once(start(relayProgram, socket, machine, String(port), address).stdout!, 'data')
      const relay = await relayTo({ path: socket })
      cleanups.unshift(relay.close)
      return relay.port
    },

    async clean(): Promise<void> {
      for (const work of cleanups) await work()
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

async function command(program: string, args: readonly string[]): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')}: exit code ${code}`)
}

/** Passes on what reaches the path or port that it is given, from an address of its own if that is the last argument. */
export const relayProgram = `
  const net = require('net')
  const [at, host, port, localAddress] = process.argv.slice(1)
  net.createServer(near => {
    const far = net.connect({ host, port: Number(port), localAddress })
    for (const socket of [near, far]) socket.on('error', () => {}).on('close', () => { near.destroy(); far.destroy() })
    near.pipe(far).pipe(near)
  }).listen(at, () => console.log('listens'))`

/** Postgres gives a place to who has named a user; the other engines to who has connected. Printed is what is open, and how often it was refused. */
const crowdProgram = `
  const net = require('net'), tls = require('tls')
  const [host, port, engine, from, each] = process.argv.slice(1)
  const addresses = JSON.parse(from), open = addresses.map(() => 0)
  let refused = 0
  const words = Buffer.from('user\\0default\\0database\\0default\\0\\0'), startup = Buffer.alloc(8 + words.length)
  startup.writeInt32BE(startup.length, 0)
  startup.writeInt32BE(196608, 4)
  words.copy(startup, 8)
  const greet = socket => {
    socket.write(Buffer.from('0000000804d2162f', 'hex'))
    socket.once('data', () => {
      const secure = tls.connect({ socket, rejectUnauthorized: false }, () => secure.write(startup))
      secure.on('error', () => socket.destroy()).resume()
    })
  }
  const hold = (localAddress, at) => {
    let counts = false
    const socket = net.connect({ host, port: Number(port), localAddress }, () => {
      counts = true
      open[at]++
      engine === 'postgres' ? greet(socket) : socket.resume()
    })
    socket.on('error', () => { if (!counts) refused++ })
    socket.on('close', () => {
      if (counts) open[at]--
      setTimeout(hold, 500, localAddress, at) // more often would only take processors from everyone
    })
  }
  addresses.forEach((address, at) => { for (let n = 0; n < Number(each); n++) hold(address, at) })
  setInterval(() => console.log(JSON.stringify({ open, refused })), 50)`
