import type { IncomingMessage } from 'node:http'
import { leastPace } from '../../policy/body-budgets.ts'

/** Calls `slow` when too little came in; returns how to stop watching. */
export function keepPace(
  { socket }: Pick<IncomingMessage, 'socket'>,
  slow: () => void,
  { bytesPerSecond, overSeconds }: { bytesPerSecond: number; overSeconds: number } = leastPace,
): () => void {
  let seen = socket.bytesRead
  const timer = setInterval(() => {
    if (socket.bytesRead - seen < bytesPerSecond * overSeconds) slow()
    seen = socket.bytesRead
  }, overSeconds * 1000)
  return () => clearInterval(timer)
}
