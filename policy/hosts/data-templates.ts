/** Prepared data folders, from which hosts copy those of new databases. */
export const dataTemplates = {
  /** MB of one archive; a larger data folder is made anew for each database. */
  maxMb: 512,
  /** Archives next to the images of a host; those that were not used for the longest time are removed first. */
  max: 8,
  /** Changes whenever what is done to an archive or its copies changes: archives of another layout are not used. */
  layout: 1,
} as const
