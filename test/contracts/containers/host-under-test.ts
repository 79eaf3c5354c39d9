import type { ExecutionContext } from 'ava'
import type { ContainerHost, ContainerSpec } from '../../../activities/containers/port.ts'

/** Programs of the contract. A fake recognises them by their text. */
export const programs = {
  waits: 'exec sleep 600',
  answers: "exec node -e \"require('http').createServer((q,s)=>s.end('ok')).listen(process.env.PORT)\"",
  speaks: 'echo out; echo err >&2; echo última; exec sleep 600',
  talks: "seq -f 'line %g' 1000 8999; exec sleep 600",
  fails: 'echo no >&2; exit 3',
  rambles: "exec node -e \"console.log('\\u00e9'.repeat(100000) + '\\nend'); setInterval(() => {}, 1e6)\"",
  floods: 'exec yes',
  installs: 'echo one; sleep 0.2; echo two',
  stubborn: "trap '' TERM; while :; do sleep 0.1; done",
  swallows: 'exec node -e "const a=[];for(;;)a.push(Buffer.alloc(1e7,1))"',
  looksAround: `printf '%s\\n' "$WORD"; echo "$(id -u):$(id -g) in $(pwd)"; cat kept/told; echo new >> mine/told && cat mine/told; (echo new >> kept/told) 2>/dev/null || echo refused`,
} as const

export const missingImage = 'berth-nowhere/nothing:1'

export interface HostUnderTest {
  host: ContainerHost
  /** A small container of this program in a network that exists, with labels of this run. */
  spec(program: keyof typeof programs, change?: Partial<ContainerSpec>): ContainerSpec
  /** The same kind of host, whose engine can become unreachable and come back. */
  fragile(t: ExecutionContext): Promise<{ host: ContainerHost; fall(): Promise<void>; rise(): Promise<void> }>
  /** A container for which there is no space left when it is started. */
  crowded(t: ExecutionContext): ContainerSpec
}

/** A container of this kind that has been started, as the engine reports it. */
export async function running(host: ContainerHost, spec: ContainerSpec) {
  await host.create(spec)
  await host.start(spec.name)
  return host.inspect(spec.name)
}
