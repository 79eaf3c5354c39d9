/** So many of a kind are under way on one host at once, and so many of them of one account; the others wait for their turn. */
export interface Places {
  atOnce: number
  perSubject: number
}

/** Commands and what takes a failed step back. They are short, and wait for nothing that is long. */
export const commandPlaces: Places = { atOnce: 100, perSubject: 20 }

/** A gate costs little but time, which the program decides on. */
export const gatePlaces: Places = { atOnce: 200, perSubject: 10 }

/** Unpacking, placing and starting new versions: work for disk and engine, and what waits for an image. */
export const releasePlaces: Places = { atOnce: 20, perSubject: 5 }

/** What one worker takes on; what has no place yet waits there and costs nothing. */
export const tasksAtOnce = 1000

/** A command waits so long for an image that is on its way, in seconds; the image comes all the same. */
export const commandImageSeconds = 24

/** How images are pulled: so many at once; one that shows no progress, or takes longer, is given up. */
export const imagePulls = { atOnce: 3, silentSeconds: 90, seconds: 15 * 60 }
