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

/**
 * Fetches and install steps, which may take many minutes: an account has all slots but one, so that those of others go on beside
 * install steps that never end. The only slot of a host goes round.
 */
export const buildPlaces = (slots: number): Places => ({ atOnce: slots, perSubject: Math.max(1, slots - 1) })

/** An install step is ended after so long. */
export const installSeconds = 15 * 60

/** Logs that are read for the API: the engine gives up to 10 MB of each, of which the host keeps the end. */
export const logPlaces: Places = { atOnce: 6, perSubject: 2 }

/** What one worker takes on; what has no place yet waits there and costs nothing. */
export const tasksAtOnce = 1000

/** A command waits so long for an image that is on its way, in seconds; the image comes all the same. */
export const commandImageSeconds = 24

/** How images are pulled: so many at once; one that shows no progress, or takes longer, is given up. */
export const imagePulls = { atOnce: 3, silentSeconds: 90, seconds: 15 * 60 }
