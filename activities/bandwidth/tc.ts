import { open, readdir, readFile, stat } from 'node:fs/promises'
import { outcomeOf, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { type Bandwidth, type LinkedContainer, type OpenedBandwidth, tokenBucket } from './port.ts'

/** The only device of a container with one network. */
const inside = 'eth0'

/**
 * Limits by `tc`, with one token bucket at each end of the container's link: the host's end limits what the container receives, the
 * container's end what it sends. No program in the container can change that, because none has CAP_NET_ADMIN.
 */
export function tcBandwidth(): Bandwidth {
  return {
    async limit({ id, pid, mbit }: LinkedContainer) {
      // Opened before the check, so that a reused process id cannot lead to another network.
      const network = await open(`/proc/${pid}/ns/net`)
      try {
        await demandIn(id, pid)
        if ((await network.stat()).ino === (await stat('/proc/self/ns/net')).ino)
          throw new Error('the container has no network of its own')
        const within = ['nsenter', '--net=/proc/self/fd/3']
        const [link] = JSON.parse(await run([...within, 'ip', '-json', 'link', 'show', 'dev', inside], network.fd))
        if (!Number.isInteger(link?.link_index)) throw new Error('the kernel does not report the other end of its link')
        await run([...within, 'tc', ...tokenBucket(inside, mbit)], network.fd)
        // The index belongs to the network of the other end: here it may be a card of the machine, or another container's link.
        await demandOtherEnd(link)
        await run(['tc', ...tokenBucket(`if${link.link_index}`, mbit)])
        await demandOtherEnd(link)
        await demandIn(id, pid)
      } finally {
        await network.close()
      }
    },
  }
}

async function demandIn(id: string, pid: number): Promise<void> {
  if (!(await readFile(`/proc/${pid}/cgroup`, 'utf8')).includes(id))
    throw new Error(`process ${pid} is not in container ${id}: the host process does not see the engine's processes`)
}

const devices = '/sys/class/net'

/** Rejects unless the device of that number in this network is the other end of a container's link. */
async function demandOtherEnd({ ifindex, link_index }: { ifindex: number; link_index: number }): Promise<void> {
  for (const name of await readdir(devices)) {
    const number = (file: string) => readFile(`${devices}/${name}/${file}`, 'utf8').then(Number, () => null)
    // A device that is not the end of a link names itself.
    if ((await number('ifindex')) === link_index && link_index !== ifindex && (await number('iflink')) === ifindex)
      return
  }
  throw new Error(`the device ${link_index} of this machine is not the other end of the container's link`)
}

/** The limits of this host, if it runs as root, the kernel supports them, and the setting (Mbit/s per 256 MB) is on. */
export async function openBandwidth(mbitPer256Mb: number): Promise<OpenedBandwidth> {
  if (mbitPer256Mb === 0) return { bandwidth: null, notice: 'the setting HOST_BANDWIDTH_MBIT is off' }
  if (process.getuid?.() !== 0) return { bandwidth: null, notice: 'the host process does not run as root' }
  // Tried in a new network namespace, which ends with the command.
  const outcome = await run(['unshare', '--net', 'tc', ...tokenBucket('lo', mbitPer256Mb)]).catch(
    (error: Error) => error,
  )
  if (outcome instanceof Error) return { bandwidth: null, notice: `tc does not work here: ${outcome.message}` }
  return { bandwidth: tcBandwidth(), notice: null }
}

/** Output of a program, which gets `fd` as its descriptor 3. Rejects with the first line of its stderr. */
async function run([program = '', ...args]: string[], fd?: number): Promise<string> {
  const stdio = ['ignore', 'pipe', 'pipe', fd ?? 'ignore'] as const
  const child = startProcess(program, args, { env: systemEnvironment, stdio: [...stdio] })
  const { code, output, error } = await outcomeOf(child)
  if (code !== 0) throw new Error(`${program}: ${error.trim().split('\n')[0] || `exit code ${code}`}`)
  return output
}
