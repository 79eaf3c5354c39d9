import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const name = '\0berth-start' // an abstract socket: gone with its process, whatever ends it
const longestTurnMs = 120_000

/**
 * Lets one installation of this machine start at a time: between the choice of free ports and their use, another start would
 * choose the same. Resolves to the release; a turn that takes over two minutes is not waited for any longer.
 */
export async function takeStartTurn(): Promise<() => void> {
  for (const deadline = Date.now() + longestTurnMs; Date.now() < deadline; await sleep(100)) {
    const server = createServer()
    const mine = await new Promise<boolean>(resolve => {
      server.once('error', () => resolve(false))
      server.listen(name, () => resolve(true))
    })
    if (mine) return () => server.close()
  }
  return () => {}
}
