/** Characters that control a terminal or change the writing direction; line ends and tabs are allowed. */
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Makes text with customers' content safe for an operator's terminal: it moves no cursor and sets no title. */
export const printable = (text: string): string => text.replace(controls, ' ')

/** Like `printable`, for one line of a list: the text cannot imitate another line either. */
export const oneLine = (text: string): string => printable(text).replace(/[\n\t]+/g, ' ')

type Line = (...words: unknown[]) => void

/** From here on no control characters reach the terminal, whichever command prints them. */
export function guardTerminal(console: { log: Line; error: Line }): void {
  for (const method of ['log', 'error'] as const) {
    const write = console[method].bind(console)
    console[method] = (...words) => write(...words.map(word => (typeof word === 'string' ? printable(word) : word)))
  }
}

/** As `1 segment` and `2 segments`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
