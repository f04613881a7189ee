"""auto: L̂ by whichever estimator of hpcdp's own training outputs judge best."""
