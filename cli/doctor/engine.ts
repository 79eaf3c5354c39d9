import { readFileSync } from 'node:fs'
import { answersAboutNetworks, containersLiveOn, engineVersion } from '../services/engine/answers.ts'
import type { Finding } from './findings.ts'

const engineName = 'docker engine'

/** What an engine says of itself; nothing when it `mayBeHidden`: of Berth's containers only the host's has the socket. */
export async function engineFindings(address: string, { mayBeHidden = false } = {}): Promise<Finding[]> {
  const version = await engineVersion(address)
  if (version === null && mayBeHidden) return []
  if (version === null)
    return [
      {
        name: engineName,
        state: `DOES NOT ANSWER at ${address}`,
        remedy: 'start it: sudo systemctl start docker; or give this user access: sudo usermod -aG docker $USER',
      },
    ]
  const answers = await answersAboutNetworks(address)
  return [
    answers ? engineVersionFinding(version, address, ioUringDisabled()) : stuckFinding(version, address),
    liveRestoreFinding(await containersLiveOn(address)),
  ]
}

/** Engines before 20.10.27 may deadlock, see keepDocker. */
function stuckFinding(version: string, address: string): Finding {
  return {
    name: engineName,
    state: `${version} answers at ${address}, BUT NOT ABOUT NETWORKS: it starts no program`,
    remedy: 'if it still does not in a minute, restart it: sudo systemctl restart docker',
  }
}

function ioUringDisabled(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/io_uring_disabled', 'utf8').trim()
  } catch {
    return null
  }
}

/** Docker recommends 28: before it, machines of the same network reach ports that containers publish on loopback. */
const safeEngine = 28
/** From this version on the engine's filter denies io_uring; some builds before 23 also permit AF_VSOCK. */
const filteringEngine = 25

/** Judges the engine by its version. `ioUring` is the kernel's `io_uring_disabled`; null where it has none. */
export function engineVersionFinding(version: string, address: string, ioUring: string | null): Finding {
  const finding = { name: engineName, state: `${version} answers at ${address}` }
  const major = Number.parseInt(version, 10)
  if (major >= safeEngine) return finding
  const open = major < filteringEngine && (ioUring === null || ioUring === '0')
  const until = open
    ? '; until then deny programs io_uring, which its filter permits: sysctl -w kernel.io_uring_disabled=1 (kernel 6.6 and newer)'
    : ''
  return {
    ...finding,
    remedy: `update it to 28 or newer: in older versions, machines of the same network reach ports on loopback${until}`,
  }
}

/** Whether applications keep running when their engine stops; null if the engine does not report it. */
export function liveRestoreFinding(livesOn: boolean | null): Finding {
  const name = 'live-restore'
  if (livesOn) return { name, state: 'on: applications keep running when the engine restarts' }
  if (livesOn === null)
    return {
      name,
      state: 'UNKNOWN: the engine did not answer',
      remedy: 'run the doctor again when the engine is less busy',
    }
  return {
    name,
    state: 'OFF: applications stop with the engine, and are started again after it',
    remedy: 'add "live-restore": true to /etc/docker/daemon.json, then: sudo systemctl reload docker',
  }
}
