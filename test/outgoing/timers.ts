/** How many timers keep the process alive. */
export function timers(): number {
  return process.getActiveResourcesInfo().filter(resource => resource === 'Timeout').length
}
