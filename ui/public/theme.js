// Runs before the first paint, so that a chosen theme does not flash. A file of its own: the daemon's policy allows no inline script.
try {
  const theme = localStorage.getItem("weir.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; the system's setting then decides.
}
